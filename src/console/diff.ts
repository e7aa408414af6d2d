/**
 * Which lines of two texts differ. Takes lines, returns them in order with the text they belong to. Equal beginnings and
 * ends are found first, and between them the longest common subsequence, unless that is too much work: then all lines of
 * the first text precede all of the second. Pure.
 */
export interface DiffLine {
  readonly text: string;
  readonly in: 'both' | 'first' | 'second';
}

/** Maximum size of the table for the lines between the equal ends. */
const workMax = 4_000_000;

export function diffLines(first: readonly string[], second: readonly string[]): readonly DiffLine[] {
  let head = 0;
  while (head < first.length && head < second.length && first[head] === second[head]) head += 1;
  let tail = 0;
  const most = Math.min(first.length, second.length) - head;
  while (tail < most && first[first.length - 1 - tail] === second[second.length - 1 - tail]) tail += 1;
  const as = (lines: readonly string[], where: DiffLine['in']): DiffLine[] =>
    lines.map((text) => ({ text, in: where }));
  return [
    ...as(first.slice(0, head), 'both'),
    ...between(first.slice(head, first.length - tail), second.slice(head, second.length - tail), as),
    ...as(first.slice(first.length - tail), 'both'),
  ];
}

function between(
  a: readonly string[],
  b: readonly string[],
  as: (lines: readonly string[], where: DiffLine['in']) => DiffLine[],
): DiffLine[] {
  if (a.length === 0 || b.length === 0 || a.length * b.length > workMax)
    return [...as(a, 'first'), ...as(b, 'second')];
  const width = b.length + 1;
  /** Length of the longest common subsequence from here to the ends. */
  const common = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--)
      common[i * width + j] =
        a[i] === b[j]
          ? 1 + (common[(i + 1) * width + j + 1] ?? 0)
          : Math.max(common[(i + 1) * width + j] ?? 0, common[i * width + j + 1] ?? 0);
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ text: a[i] ?? '', in: 'both' });
      i += 1;
      j += 1;
    } else if ((common[(i + 1) * width + j] ?? 0) >= (common[i * width + j + 1] ?? 0))
      lines.push({ text: a[i++] ?? '', in: 'first' });
    else lines.push({ text: b[j++] ?? '', in: 'second' });
  }
  return [...lines, ...as(a.slice(i), 'first'), ...as(b.slice(j), 'second')];
}
