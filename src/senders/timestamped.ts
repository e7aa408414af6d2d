/** Senders that sign a timestamp and the body: both in one header that is a list of `name=value`, or in a header each. */
import {
  base64url,
  element,
  elements,
  fresh,
  freshMs,
  header,
  headerOperand,
  hmac,
  utf8,
} from './expressions.ts';
import { type Sender, type SenderSpec, sender } from './sender.ts';
import { mac, seconds } from './signing.ts';

interface ListSpec extends SenderSpec {
  /** The names of the timestamp and of the signature. */
  readonly time: string;
  readonly version: string;
  readonly separator?: ',' | ';';
  /** The separator between the timestamp and the body in what is signed. */
  readonly join?: '.' | ':';
  readonly milliseconds?: boolean;
  readonly encoding?: 'hex' | 'base64url';
}

export function timestampedList(spec: ListSpec): Sender {
  const {
    time,
    version,
    separator = ',',
    join = '.',
    milliseconds = false,
    encoding = 'hex',
    ...rest
  } = spec;
  const name = spec.headers[0] ?? '';
  const tolerance = spec.toleranceS ?? null;
  const at = element(name, time, separator);
  const age = (milliseconds ? freshMs : fresh)(at, tolerance ?? 0);
  return sender('A signature of the body and a timestamp', {
    expression: (s) => {
      const signed = `${utf8(`${at} || '${join}'`)} || payload`;
      const digest =
        encoding === 'hex'
          ? hmac(s, signed, 'sha256', 'hex')
          : base64url(hmac(s, signed, 'sha256', 'base64'));
      const compared = `secure_compare_any('${version}=' || ${digest},\n    ${elements(name, separator)})`;
      return tolerance === null ? compared : `${age}\n  AND ${compared}`;
    },
    sign: ({ body, nowMs, signingKey }) => {
      const stamp = milliseconds ? String(nowMs) : seconds(nowMs);
      const signature = mac('sha256', signingKey, encoding, `${stamp}${join}`, body);
      return { headers: { [name]: `${time}=${stamp}${separator}${version}=${signature}` } };
    },
    ...rest,
  });
}

/** `v0:<time>:<body>`: Slack's form, which Zoom adopted. The headers: signature, timestamp. */
export function v0(spec: SenderSpec & { readonly toleranceS: number }): Sender {
  const [signature = '', time = ''] = spec.headers;
  return sender('A signature of the body and a timestamp', {
    expression: (s) =>
      `${fresh(header(time), spec.toleranceS)}\n  AND secure_compare(${header(signature)},\n    'v0=' || ` +
      `${hmac(s, `${utf8(`'v0:' || ${headerOperand(time)} || ':'`)} || payload`, 'sha256', 'hex')})`,
    sign: ({ body, nowMs, signingKey }) => ({
      headers: {
        [time]: seconds(nowMs),
        [signature]: `v0=${mac('sha256', signingKey, 'hex', `v0:${seconds(nowMs)}:`, body)}`,
      },
    }),
    ...spec,
  });
}
