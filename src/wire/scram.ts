/**
 * The server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677) as PostgreSQL speaks it. Pure: takes messages, stored
 * verifiers and nonces, returns messages and a verdict; touches nothing. What a server stores of a password, its
 * verifier, has PostgreSQL's own form: `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, as in pg_authid.
 *
 * Channel binding (SCRAM-SHA-256-PLUS) is not offered; a client that could have bound its channel may say so.
 */
import { createHash, createHmac, pbkdf2Sync, timingSafeEqual } from 'node:crypto';

export const scramMechanism = 'SCRAM-SHA-256';

/** PostgreSQL's default, for verifiers made here. */
const iterations = 4_096;
const saltBytes = 16;
const keyBytes = 32;

export interface ScramVerifier {
  readonly iterations: number;
  readonly salt: Buffer;
  readonly storedKey: Buffer;
  readonly serverKey: Buffer;
}

/** null: the text is not such a verifier; an MD5 verifier is not. */
export function parseVerifier(text: string): ScramVerifier | null {
  const parts = /^SCRAM-SHA-256\$(\d{1,9}):([A-Za-z0-9+/=]+)\$([A-Za-z0-9+/=]+):([A-Za-z0-9+/=]+)$/.exec(
    text,
  );
  if (parts === null) return null;
  const [salt, storedKey, serverKey] = [2, 3, 4].map((i) => Buffer.from(parts[i] ?? '', 'base64'));
  if (salt === undefined || storedKey?.length !== keyBytes || serverKey?.length !== keyBytes) return null;
  return { iterations: Number(parts[1]), salt, storedKey, serverKey };
}

/** `password` is printable ASCII, which SASLprep (RFC 4013) leaves as it is. */
export function makeVerifier(password: string, salt: Buffer): ScramVerifier {
  const salted = pbkdf2Sync(password, salt, iterations, keyBytes, 'sha256');
  return {
    iterations,
    salt,
    storedKey: createHash('sha256').update(hmac(salted, 'Client Key')).digest(),
    serverKey: hmac(salted, 'Server Key'),
  };
}

/** The salt of `user` if no verifier has another: the same every time, as a real one is. */
export function saltOf(user: string, key: Buffer): Buffer {
  return hmac(key, `salt of ${user}`).subarray(0, saltBytes);
}

/** A verifier that no password matches, for names that nobody may log in with: they cannot be told from others. */
export function nobodysVerifier(user: string, key: Buffer): ScramVerifier {
  const storedKey = hmac(key, `nobody ${user}`);
  return { iterations, salt: saltOf(user, key), storedKey, serverKey: storedKey };
}

/** A message that is not SCRAM, or a kind of SCRAM that is not supported here. */
export class ScramViolation extends Error {
  override readonly name = 'ScramViolation';
}

export interface ScramExchange {
  /** The server's first message. */
  readonly challenge: string;
  /** Takes the client's final message; returns the server's, or null: the password is wrong. */
  finish(clientFinal: string): string | null;
}

/** `serverNonce` is fresh and random: printable ASCII without a comma. Throws ScramViolation. */
export function beginScram(clientFirst: string, verifier: ScramVerifier, serverNonce: string): ScramExchange {
  // n: the client cannot bind the channel; y: it could, and believes that this server cannot; p=…: it does. The name in
  // it is not used, and PostgreSQL's clients leave it empty: the startup packet has the name.
  const first = /^([ny],,)(n=[^,]*,r=([\x21-\x2b\x2d-\x7e]{1,1024}))(?:,.*)?$/s.exec(clientFirst);
  if (first === null) throw new ScramViolation('malformed SCRAM message');
  const [, header = '', bare = '', clientNonce = ''] = first;
  if (`${header}${bare}` !== clientFirst) throw new ScramViolation('unsupported SCRAM extension');
  const nonce = `${clientNonce}${serverNonce}`;
  const challenge = `r=${nonce},s=${verifier.salt.toString('base64')},i=${verifier.iterations}`;
  const binding = Buffer.from(header, 'latin1').toString('base64');
  return {
    challenge,
    finish(clientFinal) {
      const last = /^(c=([A-Za-z0-9+/=]*),r=([\x21-\x2b\x2d-\x7e]+)),p=([A-Za-z0-9+/]{43}=)$/.exec(
        clientFinal,
      );
      if (last === null) throw new ScramViolation('malformed SCRAM message');
      const [, withoutProof = '', saidBinding = '', saidNonce = '', proof = ''] = last;
      if (saidNonce !== nonce) throw new ScramViolation('the SCRAM nonce is not the one of this connection');
      if (saidBinding !== binding)
        throw new ScramViolation('the SCRAM channel binding has changed on the way');
      const authMessage = `${bare},${challenge},${withoutProof}`;
      const signature = hmac(verifier.storedKey, authMessage);
      const clientKey = xor(Buffer.from(proof, 'base64'), signature);
      const shown = createHash('sha256').update(clientKey).digest();
      // Both are computed whatever the result of the comparison.
      const answer = `v=${hmac(verifier.serverKey, authMessage).toString('base64')}`;
      return timingSafeEqual(shown, verifier.storedKey) ? answer : null;
    },
  };
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text, 'latin1').digest();
}

function xor(a: Buffer, b: Buffer): Buffer {
  return Buffer.from(b.map((byte, i) => byte ^ (a[i] ?? 0)));
}
