/**
 * HMAC (RFC 2104) with a key that is the same for every request. Takes the key once and returns functions of the bytes; pure. For
 * a short message, two digests that are each computed in one call cost about half as much as a Hmac object of node:crypto, which
 * is a stream with a native part that has to be garbage-collected; a long message would have to be copied, so it uses a Hmac.
 */
import { createHash, createHmac, createSecretKey, hash } from 'node:crypto';

/** For longer messages copying is not worthwhile. */
const shortBytesMax = 4 * 1024;
/** The block size of SHA-384 and SHA-512; the other algorithms have 64 bytes. */
const wideBlockBytes = 128;
const blockBytes = 64;

/** The inner block and the message. Evaluation is synchronous, so one buffer serves the whole process. */
const inner = Buffer.alloc(wideBlockBytes + shortBytesMax);

export interface KeyedHmac {
  digest(data: Buffer): Buffer;
  encoded(data: Buffer, encoding: 'hex' | 'base64'): string;
}

/** `algorithm`: one of `hashName()`. */
export function keyedHmac(key: Buffer, algorithm: string): KeyedHmac {
  const object = createSecretKey(key);
  const block = algorithm === 'sha384' || algorithm === 'sha512' ? wideBlockBytes : blockBytes;
  const shortKey = key.length > block ? createHash(algorithm).update(key).digest() : key;
  const innerPad = Buffer.alloc(block, 0x36);
  const outer = Buffer.concat([Buffer.alloc(block, 0x5c), createHash(algorithm).digest()]);
  shortKey.forEach((byte, i) => {
    innerPad[i] = byte ^ 0x36;
    outer[i] = byte ^ 0x5c;
  });
  const short = (data: Buffer, encoding: 'binary' | 'hex' | 'base64'): string => {
    inner.set(innerPad);
    inner.set(data, block);
    // One character per byte; a Buffer would take longer.
    outer.write(hash(algorithm, inner.subarray(0, block + data.length), 'binary'), block, 'latin1');
    return hash(algorithm, outer, encoding);
  };
  const long = (data: Buffer) => createHmac(algorithm, object).update(data);
  return {
    digest: (data) =>
      data.length > shortBytesMax ? long(data).digest() : Buffer.from(short(data, 'binary'), 'latin1'),
    encoded: (data, encoding) =>
      data.length > shortBytesMax ? long(data).digest(encoding) : short(data, encoding),
  };
}
