/** The byte order mark of UTF-8, EF BB BF, with which some senders begin their bodies: it is no part of the text (RFC 8259 §8.1). */
export function withoutMark(bytes: Buffer): Buffer {
  return hasMark(bytes) ? bytes.subarray(3) : bytes;
}

export function hasMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}
