/** The same as fast-check's unit `binary`, which builds a table of a million entries wherever a string is described. */
import fc from 'fast-check';

const surrogates = { first: 0xd800, count: 0x800 };

/** Any code point, one at a time: `fc.string({ unit: anyCharacter })`. */
export const anyCharacter = fc
  .integer({ min: 0, max: 0x10ffff - surrogates.count })
  .map(characterAt, (text) => placeOf(String(text)));

function characterAt(place: number): string {
  return String.fromCodePoint(place < surrogates.first ? place : place + surrogates.count);
}

function placeOf(text: string): number {
  const code = text.codePointAt(0) ?? -1;
  const place = code < surrogates.first ? code : code - surrogates.count;
  if (characterAt(Math.max(0, place)) !== text) throw new Error('not one character');
  return place;
}
