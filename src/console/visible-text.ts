/**
 * Makes text of strangers safe to show: characters that are invisible, or reverse the text, become marks. Takes a text,
 * returns pieces; they are only ever used as text. Pure.
 */
export interface TextPart {
  readonly text: string;
  /** It stands for an invisible character. */
  readonly mark: boolean;
}

/**
 * Controls except tab and line feed; format characters (bidi, zero width); line and paragraph separators; surrogates
 * and private use.
 */
// oxlint-disable-next-line no-control-regex
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}]/gu;

export function pieces(text: string): readonly TextPart[] {
  const found: TextPart[] = [];
  let from = 0;
  for (const { 0: mark, index } of text.matchAll(unseen)) {
    if (index > from) found.push({ text: text.slice(from, index), mark: false });
    const number = mark.codePointAt(0) ?? 0;
    found.push({ text: `U+${number.toString(16).toUpperCase().padStart(4, '0')}`, mark: true });
    from = index + mark.length;
  }
  if (from < text.length) found.push({ text: text.slice(from), mark: false });
  return found;
}

/** At most this many characters, and whether that is all of the text. */
export function cut(text: string, charsMax: number): { readonly text: string; readonly whole: boolean } {
  if (text.length <= charsMax) return { text, whole: true };
  const last = text.charCodeAt(charsMax - 1);
  return { text: text.slice(0, last >= 0xd8_00 && last < 0xdc_00 ? charsMax - 1 : charsMax), whole: false };
}

/** For an option, which can hold only text: invisible characters are replaced. */
export const optionText = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\ufffd');

/** In the format of `hexdump -C`. */
export function hexLines(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const row = [...bytes.subarray(at, at + 16)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${hex.padEnd(47)}  ${text}`);
  }
  return lines.join('\n');
}

const units = ['B', 'kB', 'MB', 'GB', 'TB'];

/** In units of 1,000, as disks and senders count. */
export function sizeText(bytes: number): string {
  let [size, unit] = [bytes, 0];
  for (; size >= 1_000 && unit < units.length - 1; unit++) size /= 1_000;
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit] ?? ''}`;
}

export function agoText(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1_000));
  if (s < 2) return 'just now';
  if (s < 120) return `${s} s ago`;
  if (s < 7_200) return `${Math.round(s / 60)} min ago`;
  return s < 172_800 ? `${Math.round(s / 3_600)} h ago` : `${Math.round(s / 86_400)} days ago`;
}

const counts = [
  [1e9, 'G'],
  [1e6, 'M'],
  [1e3, 'k'],
] as const;

/** An estimate in two digits or three: `≈ 41 M`. Below ten thousand it has all its digits. */
export function aboutText(digits: string | null | undefined): string {
  if (digits === null || digits === undefined) return '–';
  const count = Number(digits);
  if (count < 10_000) return `≈ ${digitsText(digits)}`;
  const [by, unit] = counts.find(([it]) => count >= it * 0.9995) ?? [1, ''];
  const size = count / by;
  return `≈ ${size < 9.95 ? size.toFixed(1) : Math.round(size)} ${unit}`;
}

/** Groups digits by thousands. Works on the text: a number too large for JavaScript stays exact. */
export function digitsText(digits: string): string {
  return /^\d+$/.test(digits) ? digits.replaceAll(/\B(?=(\d{3})+$)/g, '\u202f') : digits;
}

/** `1 row`, `12 345 rows`. */
export const counted = (count: number, one: string): string =>
  `${digitsText(String(count))} ${one}${count === 1 ? '' : 's'}`;
