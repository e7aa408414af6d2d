/**
 * Seals texts for the catalog and opens them again: AES-256-GCM, a random nonce each, and the identity of what is
 * sealed as additional data, so that a sealed text moved to another secret does not open.
 *
 * Form: base64( version 1 | nonce 12 bytes | ciphertext | tag 16 bytes ).
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const version = 1;
const nonceBytes = 12;
const tagBytes = 16;

export interface Sealing {
  readonly seal: (plaintext: string, identity: string) => string;
  /** Throws SealError when the key is another one, or a bit of text or identity has changed. */
  readonly open: (sealed: string, identity: string) => string;
}

export class SealError extends Error {
  override readonly name = 'SealError';
}

export function createSealing(key: Buffer): Sealing {
  return {
    seal: (plaintext, identity) => {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(identity));
      const ciphertext = Buffer.concat([cipher.update(plaintext, 'utf8'), cipher.final()]);
      return Buffer.concat([Buffer.from([version]), nonce, ciphertext, cipher.getAuthTag()]).toString(
        'base64',
      );
    },
    open: (sealed, identity) => {
      const bytes = Buffer.from(sealed, 'base64');
      if (bytes.length < 1 + nonceBytes + tagBytes || bytes[0] !== version) {
        throw new SealError('the sealed text is damaged or of a later version');
      }
      const nonce = bytes.subarray(1, 1 + nonceBytes);
      const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: tagBytes })
        .setAAD(Buffer.from(identity))
        .setAuthTag(bytes.subarray(bytes.length - tagBytes));
      try {
        const text = bytes.subarray(1 + nonceBytes, bytes.length - tagBytes);
        return Buffer.concat([decipher.update(text), decipher.final()]).toString('utf8');
      } catch {
        throw new SealError('the sealed text does not open: another master key, or it was changed');
      }
    },
  };
}
