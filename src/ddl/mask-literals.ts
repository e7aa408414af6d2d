/** Masks the keys in a text that is shown. Takes a text and where its literals are; returns it. Pure. */

export type Ranges = readonly { readonly start: number; readonly end: number }[];

/** The text with every literal that is a key masked. */
export function maskLiterals(text: string, literals: Ranges): string {
  let masked = '';
  let last = 0;
  for (const { start, end } of [...literals].sort((a, b) => a.start - b.start)) {
    masked += `${text.slice(last, start)}'********'`;
    last = end;
  }
  return masked + text.slice(last);
}
