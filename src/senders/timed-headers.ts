/** Senders that sign the body with a time, and send signature and time in a header each, or a token that contains the body's digest. */
import { createHash } from 'node:crypto';
import { fresh, freshIso, freshMs, header, headerOperand, hmac, utf8 } from './expressions.ts';
import { type Draft, type Sender, type SenderSpec, sender } from './sender.ts';
import { hs256, isoTime, mac, seconds, token } from './signing.ts';

interface TimedSpec extends SenderSpec {
  readonly order?: 'time, body' | 'body, time';
  /** Between the two. */
  readonly join?: string;
  /** Before both. */
  readonly start?: string;
  /** Before the signature. */
  readonly prefix?: string;
  readonly unit?: 's' | 'ms' | 'iso' | 'text';
  readonly encoding?: 'hex' | 'base64';
  readonly key?: 'base64' | 'hex';
}

const timeOf = { s: seconds, ms: String, iso: isoTime, text: (ms: number) => new Date(ms).toUTCString() };
const freshOf = { s: fresh, ms: freshMs, iso: freshIso };

/** The headers: signature, time. Without `toleranceS` the time is signed and not compared. */
export function timedHeaders(spec: TimedSpec): Sender {
  const {
    order = 'time, body',
    join = '',
    start = '',
    prefix = '',
    unit = 's',
    encoding = 'hex',
    key,
    ...rest
  } = spec;
  const [signature = '', time = ''] = spec.headers;
  const tolerance = spec.toleranceS ?? null;
  const between = join === '' ? '' : ` || '${join}'`;
  const signed =
    order === 'time, body'
      ? `${utf8(`${start === '' ? '' : `'${start}' || `}${headerOperand(time)}${between}`)} || payload`
      : `payload || ${utf8(`${join === '' ? '' : `'${join}' || `}${headerOperand(time)}`)}`;
  return sender('A signature of the body and a timestamp', {
    expression: (s) => {
      const digest = hmac(key === undefined ? s : `decode(${s}, '${key}')`, signed, 'sha256', encoding);
      const compared = `secure_compare(${header(signature)},\n    ${prefix === '' ? '' : `'${prefix}' || `}${digest})`;
      if (tolerance === null || unit === 'text') return compared;
      return `${freshOf[unit](header(time), tolerance)}\n  AND ${compared}`;
    },
    sign: ({ body, nowMs, signingKey }) => {
      const at = timeOf[unit](nowMs);
      const bytes = key === undefined ? signingKey : Buffer.from(signingKey, key);
      const parts = order === 'time, body' ? [`${start}${at}${join}`, body] : [body, `${join}${at}`];
      return { headers: { [time]: at, [signature]: prefix + mac('sha256', bytes, encoding, ...parts) } };
    },
    ...rest,
  });
}

interface TokenSpec extends SenderSpec {
  /** The claim with the body's digest. */
  readonly claim: string;
  readonly bearer?: boolean;
  readonly claims?: (draft: Draft) => object;
}

/** A JSON Web Token (HS256) in the first header; one claim is the body's SHA-256 in hexadecimal. */
export function digestToken(spec: TokenSpec): Sender {
  const { claim, bearer = false, claims = () => ({}), ...rest } = spec;
  const name = spec.headers[0] ?? '';
  const text = bearer ? `substr(${header(name)}, 8)` : header(name);
  return sender('A public key', {
    expression: (s) =>
      (bearer ? `lower(left(${header(name)}, 7)) = 'bearer '\n  AND ` : '') +
      `secure_compare(jwt_verify(${text}, ${s})->>'${claim}', encode(sha256(payload), 'hex'))` +
      (spec.toleranceS === undefined || spec.toleranceS === null
        ? ''
        : `\n  AND ${fresh(`jwt_verify(${text}, ${s})->>'iat'`, spec.toleranceS)}`),
    sign: (draft) => {
      const { body, nowMs, signingKey } = draft;
      const digest = createHash('sha256').update(body).digest('hex');
      const all = { ...claims(draft), iat: Math.floor(nowMs / 1000), [claim]: digest };
      const made = token({ alg: 'HS256', typ: 'JWT' }, all, hs256(signingKey));
      return { headers: { [name]: `${bearer ? 'Bearer ' : ''}${made}` } };
    },
    ...rest,
  });
}
