/**
 * Seals texts for the catalog and opens them again: AES-256-GCM with a random nonce for each text, and the identity of
 * what is sealed as additional data, so that a sealed text that was moved to another secret does not open.
 *
 * Form: base64( version 2 | id of the key, 4 bytes | nonce 12 bytes | ciphertext | tag 16 bytes ). Version 1 had no id,
 * and is still opened, by trying every key in turn. The first of the master keys seals, all of them open.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { fixedKeys } from './key-ring.ts';
import { keyIdBytes } from './key-file.ts';
import type { KeyRing } from './key-ring.ts';
import type { MasterKey } from './key-file.ts';

const nonceBytes = 12;
const tagBytes = 16;
const headBytes: { readonly [version: number]: number } = { 1: 1, 2: 1 + keyIdBytes };

export interface Sealing {
  /** false: nothing was ever sealed, or the key is missing. */
  readonly hasKey: () => boolean;
  readonly seal: (plaintext: string, identity: string) => string;
  /** Throws SealError if the key is a different one, or a bit of the text or the identity has changed. */
  readonly open: (sealed: string, identity: string) => string;
  /** Whether it was sealed with the key that seals now. Says nothing of whether it opens. */
  readonly isCurrent: (sealed: string) => boolean;
}

export class SealError extends Error {
  override readonly name = 'SealError';
}

const noKey =
  'there is no master key: its file is missing, and one is made only when the catalog of the database could be read';

/** `keys`: one fixed key, or a key ring. */
export function createSealing(keys: Buffer | KeyRing): Sealing {
  const ring = Buffer.isBuffer(keys) ? fixedKeys(keys) : keys;
  return {
    hasKey: () => ring.keys().length > 0,
    seal: (plaintext, identity) => {
      // A new key may have been put first while this process runs: the rotation would miss a text sealed with the previous one.
      ring.reread();
      const [key] = ring.keys();
      if (key === undefined) throw new SealError(noKey);
      return seal(plaintext, identity, key);
    },
    open: (sealed, identity) => {
      const parts = partsOf(sealed);
      const opened = openWith(ring.keys(), parts, identity);
      if (opened !== null) return opened;
      ring.reread();
      const again = openWith(ring.keys(), parts, identity);
      if (again !== null) return again;
      throw new SealError(
        ring.keys().length === 0
          ? noKey
          : 'the sealed text does not open: another master key, or it was changed',
      );
    },
    isCurrent: (sealed) => {
      const bytes = Buffer.from(sealed, 'base64');
      return bytes[0] === 2 && ring.keys()[0]?.id.equals(bytes.subarray(1, 1 + keyIdBytes)) === true;
    },
  };
}

function seal(plaintext: string, identity: string, { id, key }: MasterKey): string {
  const head = Buffer.concat([Buffer.from([2]), id]);
  const nonce = randomBytes(nonceBytes);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(additional(head, identity));
  const ciphertext = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()]);
  return Buffer.concat([head, nonce, ciphertext, cipher.getAuthTag()]).toString('base64');
}

interface SealedParts {
  readonly head: Buffer;
  readonly nonce: Buffer;
  readonly ciphertext: Buffer;
  readonly tag: Buffer;
}

function partsOf(sealed: string): SealedParts {
  const bytes = Buffer.from(sealed, 'base64');
  const head = headBytes[bytes[0] ?? 0];
  if (head === undefined || bytes.length < head + nonceBytes + tagBytes) {
    throw new SealError('the sealed text is damaged or of a later version');
  }
  return {
    head: bytes.subarray(0, head),
    nonce: bytes.subarray(head, head + nonceBytes),
    ciphertext: bytes.subarray(head + nonceBytes, bytes.length - tagBytes),
    tag: bytes.subarray(bytes.length - tagBytes),
  };
}

/** null: none of the keys opens it. */
function openWith(
  keys: readonly MasterKey[],
  { head, nonce, ciphertext, tag }: SealedParts,
  identity: string,
) {
  for (const { id, key } of keys) {
    if (head.length > 1 && !id.equals(head.subarray(1))) continue;
    const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
      .setAAD(additional(head, identity))
      .setAuthTag(tag);
    try {
      return Buffer.concat([decipher.update(ciphertext), decipher.final()]).toString('utf8');
    } catch {
      // Not this one.
    }
  }
  return null;
}

/** In version 1 the additional data was the identity only. */
function additional(head: Buffer, identity: string): Buffer {
  return head.length === 1 ? Buffer.from(identity) : Buffer.concat([head, Buffer.from(identity)]);
}
