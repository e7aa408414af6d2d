/** The Standard Webhooks specification, which many senders follow. */
import { sign } from 'node:crypto';
import { type Retries, code, known } from './evidence.ts';
import { fresh, header, padded, utf8 } from './expressions.ts';
import { forms } from './secret-forms.ts';
import { type Draft, type Sender, type SenderSpec, same, sender } from './sender.ts';
import {
  ed25519Pair,
  isoTime,
  mac,
  privateKey,
  privateText,
  rawPublic,
  seconds,
  uuid,
  isDrawn,
} from './signing.ts';

type Prefix = 'webhook' | 'svix';

const names = (prefix: Prefix) => [`${prefix}-signature`, `${prefix}-id`, `${prefix}-timestamp`] as const;

/** The signature, the id and the time as expressions; with `or`, under the names of the other form where those are missing. */
function values(prefix: Prefix, or: Prefix | null): readonly [string, string, string] {
  const others = or === null ? [] : names(or);
  const [signature, id, time] = names(prefix).map((name, i) => {
    const other = others[i];
    return other === undefined ? header(name) : `coalesce(${header(name)}, ${header(other)})`;
  });
  return [signature ?? '', id ?? '', time ?? ''];
}

const signedBytes = (id: string, time: string) => `${utf8(`(${id}) || '.' || (${time}) || '.'`)} || payload`;

const messageId = ({ id }: Draft) => (isDrawn(id) ? `msg_${id.slice(0, 27)}` : id);

const spec = code('standard-webhooks/standard-webhooks, spec/standard-webhooks.md');
const standardId = (prefix: Prefix) => known({ header: names(prefix)[1] }, spec);
const standardRetries: Retries = { when: 'when and as often as it decides', signed: 'anew', from: spec };

export const svixRetries: Retries = {
  when: 'after 5 seconds, 5 and 30 minutes, 2 and 5 hours, and twice after 10 hours',
  afterS: [5, 305, 2105, 9305, 27305, 63305, 99305],
  signed: 'anew',
  from: [code('svix/svix-docs a3cf04a, content/retries.mdx'), spec],
};

interface StandardSpec extends Omit<SenderSpec, 'headers'> {
  readonly prefix?: Prefix;
  /** The other form, whose headers are read where those of `prefix` are missing. */
  readonly or?: Prefix;
  /** What precedes the key's base64 in the secret, outermost first. */
  readonly keyPrefixes?: readonly string[];
  /** The secret is the key, and not its base64. */
  readonly keyIsText?: boolean;
  /** What separates several signatures, if not a blank. */
  readonly separator?: string;
}

export const standardNotes = [
  'The signature’s header is a list; while a secret is being changed it contains several signatures, and any of them may match.',
];

/** Version 1: HMAC-SHA256. */
export function standard(spec: StandardSpec): Sender {
  const {
    prefix = 'webhook',
    or = null,
    keyPrefixes = ['whsec_'],
    keyIsText = false,
    separator,
    ...rest
  } = spec;
  const [signature, id, time] = names(prefix);
  return sender('Standard Webhooks', {
    headers: [signature, id, time, ...(or === null ? [] : names(or))],
    toleranceS: 300,
    delivery: standardId(prefix),
    retries: standardRetries,
    notes: standardNotes,
    expression: (s) => {
      const [signatures, idValue, timeValue] = values(prefix, or);
      const list = separator === undefined ? signatures : `replace(${signatures}, '${separator}', ' ')`;
      const text = keyPrefixes.reduce((rest, start) => `replace(${rest}, '${start}', '')`, s);
      const key = keyIsText ? s : `decode(${padded(text)}, 'base64')`;
      return (
        `${fresh(timeValue, 300)}\n  AND secure_compare_any('v1,' || encode(hmac(${key},\n      ` +
        `${signedBytes(idValue, timeValue)}, 'sha256'), 'base64'),\n    string_to_array(${list}, ' '))`
      );
    },
    sign: (draft) => {
      const text = keyPrefixes.reduce((rest, start) => rest.replace(start, ''), draft.signingKey);
      const key = Buffer.from(text, keyIsText ? 'utf8' : 'base64');
      const [message, stamp] = [messageId(draft), seconds(draft.nowMs)];
      const value = mac('sha256', key, 'base64', `${message}.${stamp}.`, draft.body);
      return { headers: { [id]: message, [time]: stamp, [signature]: `v1,${value}` } };
    },
    secretForm: forms.whsec,
    makeSecret: (random) => same(`${keyPrefixes.join('')}${random(24).toString('base64')}`),
    ...rest,
  });
}

/** Version 1a: Ed25519. */
export function standardAsymmetric(spec: StandardSpec): Sender {
  const { prefix = 'webhook', ...rest } = spec;
  const [signature, id, time] = names(prefix);
  return sender('A public key', {
    headers: [signature, id, time],
    toleranceS: 300,
    delivery: standardId(prefix),
    retries: standardRetries,
    expression: (s) => {
      const [signatureValue, idValue, timeValue] = values(prefix, null);
      const verified = (place: number) =>
        `ed25519_verify(decode(replace(${s}, 'whpk_', ''), 'base64'),\n    ${signedBytes(idValue, timeValue)},\n    ` +
        `decode(split_part(split_part(' ' || (${signatureValue}), ' v1a,', ${place}), ' ', 1), 'base64'))`;
      return `${fresh(header(time), 300)}\n  AND (${verified(2)}\n  OR ${verified(3)})`;
    },
    notes: [
      'The signature’s header is a list; while a key is being changed it contains two signatures, and either may match.',
    ],
    sign: (draft) => {
      const [message, stamp] = [messageId(draft), seconds(draft.nowMs)];
      const signed = Buffer.concat([Buffer.from(`${message}.${stamp}.`), draft.body]);
      const value = sign(null, signed, privateKey(draft.signingKey)).toString('base64');
      return { headers: { [id]: message, [time]: stamp, [signature]: `v1a,${value}` } };
    },
    secretForm: forms.whpk,
    paired: true,
    makeSecret: () => {
      const pair = ed25519Pair();
      return {
        secret: `whpk_${rawPublic(pair.publicKey).toString('base64')}`,
        signingKey: privateText(pair.privateKey),
      };
    },
    ...rest,
  });
}

export const whsec = (where: string) => ({ what: 'the signing secret, `whsec_` and base64', where });

export const invoice = ({ id, nowMs }: { id: string; nowMs: number }) => ({
  type: 'invoice.paid',
  timestamp: isoTime(nowMs),
  data: { id: uuid(id), amount: 1999, customer: 'Zoë' },
});
