/**
 * Plots as SVG text, for docs/benchmarks: lines over x, and bars. They have their own background and follow the
 * reader's light or dark scheme. Pure.
 */

export interface Line {
  readonly name: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface LinePlot {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly lines: readonly Line[];
  /** `log`: 1 and 16 are as far apart as 16 and 256, and every x of a point is a tick. */
  readonly xScale?: 'linear' | 'log';
  /** A dashed line at this y. */
  readonly mark?: { readonly y: number; readonly name: string };
}

export interface Bar {
  readonly name: string;
  readonly value: number;
  /** The minimum and maximum of the rounds, as a thin line. */
  readonly range?: readonly [low: number, high: number];
  /** Bars of one group have one colour. */
  readonly group?: number;
}

export interface BarPlot {
  readonly title: string;
  readonly x: string;
  readonly bars: readonly Bar[];
}

const width = 760;
const style = `<style>
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-weight: 600; font-size: 15px }
  .soft { fill: #59636e }
  .back { fill: #ffffff }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  .mark { stroke: #818b98; stroke-width: 1.5; stroke-dasharray: 6 4 }
  .line { fill: none; stroke-width: 2; stroke-linejoin: round }
  .range { stroke: #1f2328; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .soft { fill: #9198a1 }
    .back { fill: #0d1117 }
    .grid { stroke: #3d444d }
    .range { stroke: #f0f6fc }
  }
</style>`;
/** Distinguishable on white and on black, and with red-green colour blindness. */
const colours = ['#3b82f6', '#e68a00', '#14a38b', '#d6579c', '#8b8f98'];

const colour = (i: number): string => colours[i % colours.length] ?? '#8b8f98';

export function linePlot(plot: LinePlot): string {
  const [left, right, top, bottom] = [78, width - 20, 64, 316];
  const points = plot.lines.flatMap((line) => line.points).filter(isPlain);
  const xs = [...new Set(points.map(([x]) => x))].toSorted((a, b) => a - b);
  const yTicks = ticks(Math.max(...points.map(([, y]) => y), plot.mark?.y ?? 0, 0), 5);
  const scaled = (x: number) => (plot.xScale === 'log' ? Math.log(x) : x);
  const [first, last] = [scaled(xs[0] ?? 0), scaled(xs.at(-1) ?? 1)];
  const yTop = yTicks.at(-1) ?? 1;
  const px = (x: number) => round(left + ((scaled(x) - first) / (last - first || 1)) * (right - left));
  const py = (y: number) => round(bottom - (y / yTop) * (bottom - top));
  const xTicks = plot.xScale === 'log' ? xs : ticks(xs.at(-1) ?? 1, 8).filter((x) => x >= first && x <= last);
  const parts = [
    ...yTicks.map((y) => line('grid', left, py(y), right, py(y)) + text(left - 8, py(y) + 4, told(y), 'end')),
    ...xTicks.map((x) => text(px(x), bottom + 18, told(x), 'middle')),
    text((left + right) / 2, bottom + 40, plot.x, 'middle', 'soft'),
    `<text class="soft" transform="translate(18 ${(top + bottom) / 2}) rotate(-90)" text-anchor="middle">${escape(plot.y)}</text>`,
  ];
  if (plot.mark !== undefined) {
    const y = py(plot.mark.y);
    parts.push(line('mark', left, y, right, y), text(right, y - 5, plot.mark.name, 'end', 'soft'));
  }
  plot.lines.forEach(({ points: own }, i) => {
    const plain = own.filter(isPlain);
    const path = plain.map(([x, y]) => `${px(x)},${py(y)}`).join(' ');
    parts.push(`<polyline class="line" stroke="${colour(i)}" points="${path}"/>`);
    // Few points are marked; thousands would blur.
    if (plain.length <= 20)
      for (const [x, y] of plain)
        parts.push(`<circle cx="${px(x)}" cy="${py(y)}" r="3.5" fill="${colour(i)}"/>`);
  });
  let at = left;
  plot.lines.forEach(({ name }, i) => {
    parts.push(
      `<rect x="${at}" y="42" width="12" height="12" rx="2" fill="${colour(i)}"/>`,
      text(at + 17, 53, name),
    );
    at += 45 + name.length * 7.2;
  });
  return drawing(plot.title, bottom + 54, parts);
}

export function barPlot(plot: BarPlot): string {
  const names = Math.max(...plot.bars.map(({ name }) => name.length), 0);
  const [left, right, top, step] = [Math.min(24 + names * 7, 330), width - 84, 48, 32];
  const bottom = top + plot.bars.length * step;
  const most = Math.max(...plot.bars.map(({ value, range }) => Math.max(value, range?.[1] ?? 0)), 0);
  const xTicks = ticks(most, 5);
  const px = (x: number) => round(left + (x / (xTicks.at(-1) ?? 1)) * (right - left));
  const parts = xTicks.map(
    (x) => line('grid', px(x), top, px(x), bottom) + text(px(x), bottom + 18, told(x), 'middle'),
  );
  plot.bars.forEach(({ name, value, range, group }, i) => {
    const y = top + i * step;
    parts.push(
      text(left - 8, y + 21, name, 'end'),
      `<rect x="${left}" y="${y + 6}" width="${round(px(value) - left)}" height="20" rx="2" fill="${colour(group ?? 0)}"/>`,
    );
    if (range !== undefined) parts.push(line('range', px(range[0]), y + 16, px(range[1]), y + 16));
    parts.push(text(Math.max(px(value), px(range?.[1] ?? 0)) + 8, y + 21, told(value)));
  });
  parts.push(text((left + right) / 2, bottom + 40, plot.x, 'middle', 'soft'));
  return drawing(plot.title, bottom + 54, parts);
}

/** 0 and up, in steps of 1, 2 or 5 times a power of ten; the last tick is at least `most`. */
export function ticks(most: number, about: number): number[] {
  // Smaller values count as zero: they have no power of ten to divide by.
  if (!(most > 1e-100) || !Number.isFinite(most)) return [0, 1];
  const rough = most / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5].find((n) => n * power >= rough) ?? 10);
  const count = Math.ceil(most / step - 1e-9);
  return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}

function told(value: number): string {
  if (value >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en-US');
  return String(Number(value.toPrecision(2)));
}

const isPlain = ([x, y]: readonly [number, number]): boolean => Number.isFinite(x) && Number.isFinite(y);
const round = (value: number): number => Math.round(value * 10) / 10;
const escape = (value: string): string =>
  value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

function line(kind: string, x1: number, y1: number, x2: number, y2: number): string {
  return `<line class="${kind}" x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}"/>`;
}

function text(x: number, y: number, value: string, anchor = 'start', kind = ''): string {
  const klass = kind === '' ? '' : ` class="${kind}"`;
  return `<text${klass} x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escape(value)}</text>`;
}

function drawing(title: string, height: number, parts: readonly string[]): string {
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escape(title)}">`,
    `<title>${escape(title)}</title>`,
    style,
    `<rect class="back" width="${width}" height="${height}" rx="6"/>`,
    text(20, 26, title, 'start', 'title'),
    ...parts,
    '</svg>\n',
  ].join('\n');
}
