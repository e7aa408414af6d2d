/**
 * Converts between byte offsets and character positions. PostgreSQL counts error positions in characters of the
 * client's encoding, while the relay has texts as bytes (latin1 strings). Lengths by lead byte are those of
 * PostgreSQL's src/common/wchar.c; encodings that are not listed have one byte per character.
 */
type CharLength = (lead: number, second: number) => number;

const high = (lead: number): boolean => lead >= 0x80;
const euc =
  (ss2: number, ss3: number): CharLength =>
  (lead) =>
    lead === 0x8e ? ss2 : lead === 0x8f ? ss3 : high(lead) ? 2 : 1;
const twoBytes: CharLength = (lead) => (high(lead) ? 2 : 1);
const shiftJis: CharLength = (lead) => (lead >= 0xa1 && lead <= 0xdf ? 1 : high(lead) ? 2 : 1);

const lengths: ReadonlyMap<string, CharLength> = new Map([
  ['UTF8', (lead) => (lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 1)],
  ['EUC_JP', euc(2, 3)],
  ['EUC_JIS_2004', euc(2, 3)],
  ['EUC_KR', euc(2, 3)],
  ['JOHAB', euc(2, 3)],
  ['EUC_CN', euc(3, 3)],
  ['EUC_TW', euc(4, 3)],
  ['SJIS', shiftJis],
  ['SHIFT_JIS_2004', shiftJis],
  ['BIG5', twoBytes],
  ['GBK', twoBytes],
  ['UHC', twoBytes],
  ['GB18030', (lead, second) => (!high(lead) ? 1 : second >= 0x30 && second <= 0x39 ? 4 : 2)],
]);

/** Walks `text` until `done` returns true; returns the bytes and characters passed. */
function walk(
  text: string,
  encoding: string,
  done: (bytes: number, chars: number) => boolean,
): { bytes: number; chars: number } {
  const length = lengths.get(encoding);
  let bytes = 0;
  let chars = 0;
  while (bytes < text.length && !done(bytes, chars)) {
    bytes += length === undefined ? 1 : length(text.charCodeAt(bytes), text.charCodeAt(bytes + 1));
    chars += 1;
  }
  return { bytes: Math.min(bytes, text.length), chars };
}

/** The number of characters before the byte at `offset` (0-based). */
export function charsBefore(text: string, offset: number, encoding: string): number {
  const { bytes, chars } = walk(text, encoding, (bytes) => bytes >= offset);
  // An offset inside a character belongs to that character.
  return bytes > offset ? chars - 1 : chars;
}

/** The byte offset (0-based) after the first `chars` characters. */
export function bytesOfChars(text: string, chars: number, encoding: string): number {
  return walk(text, encoding, (_, passed) => passed >= chars).bytes;
}
