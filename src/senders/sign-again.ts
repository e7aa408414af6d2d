/**
 * Signs a kept request again as its sender would. Takes the request and a secret, returns it with a new signature and a new time; every
 * other header stays as it was kept, and none is invented. Throws `UnsignableError` for a request that can be signed only by
 * inventing a part of it, such as the id of a delivery; what `sign` throws for a secret of another form, which may quote the secret. Pure.
 */
import type { HandshakeQuery, Sender } from './sender.ts';

export class UnsignableError extends Error {
  override readonly name = 'UnsignableError';
}

interface SigningMeans {
  readonly signingKey: string;
  readonly nowMs: number;
  readonly random: (size: number) => Buffer;
}

/** Headers of a signature itself, whose values say nothing about the delivery. */
const ofSignature = /-(?:version|algorithm|algo)$|^digest$/i;

/** The names of `kept.headers` are in lower case, and so are those of the result. */
export function signAgain(sender: Sender, kept: HandshakeQuery, means: SigningMeans): HandshakeQuery {
  const { method, url, body, headers } = kept;
  const { signingKey, nowMs, random } = means;
  const sign = (id: string) => {
    const made = sender.sign({ method, url, body, nowMs, signingKey, id });
    return { ...made, headers: inLowerCase(made.headers) };
  };
  let made = sign(random(16).toString('hex'));
  for (const name of Object.keys(made.headers).filter((it) => isId(it, sender))) {
    const id = headers[name];
    if (id === undefined)
      throw new UnsignableError(`${sender.name} signs ${name}, which this request does not have`);
    made = sign(id);
    if (made.headers[name] !== id)
      throw new UnsignableError(
        `${sender.name} signs ${name}, and "${id}" is not an id that can be signed here`,
      );
  }
  const read = new Set(sender.headers.map((name) => name.toLowerCase()));
  const own = Object.entries(made.headers).filter(([name]) => read.has(name) || ofSignature.test(name));
  return {
    method,
    url: made.url ?? url,
    body: made.body ?? body,
    headers: { ...headers, ...Object.fromEntries(own) },
  };
}

/** Headers that a sender signs and that name the delivery, such as `webhook-id`. */
function isId(name: string, { signatureHeader }: Sender): boolean {
  return /(?:^|-)id$/.test(name) && name !== signatureHeader?.toLowerCase();
}

function inLowerCase(headers: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

/** The headers that name a delivery and are signed. */
export function signedIds(sender: Sender): readonly string[] {
  return sender.headers.map((name) => name.toLowerCase()).filter((name) => isId(name, sender));
}
