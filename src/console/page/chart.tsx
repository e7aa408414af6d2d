/**
 * Requests over time as bars, from `headgate.traffic`: stored, kept on disk first, refused, and told to come again. The list of endpoints shows
 * a small chart; the overview, an endpoint's page and the list of requests the large one, with axes in the page's time zone, figures for each bar (mouse, ← and →), a click for the
 * requests of a bar, a drag for a range, and a table for readers who cannot see the bars.
 */
import type { JSX, RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { digitsText } from '../visible-text.ts';
import type { ResultRow } from './load.ts';
import { dayText, minuteText } from './time-zone.ts';

const kinds = [
  ['good', 'Stored'],
  ['disk', 'Kept on disk'],
  ['bad', 'Refused'],
  ['later', 'Told to come again'],
] as const;
export type BarKind = (typeof kinds)[number][0];
type Counts = Readonly<Record<BarKind, number>>;

const none: Counts = { good: 0, disk: 0, bad: 0, later: 0 };
const sumOf = (of: Counts): number => kinds.reduce((sum, [kind]) => sum + of[kind], 0);

interface Bar extends Counts {
  /** How many bars ago: 0 is the current one. */
  readonly ago: number;
}

/** Each is `how long ago,stored,kept on disk,refused,unavailable`, as returned by `listTraffic`. */
export function barsOf(day: string): readonly Bar[] {
  return day.split(' ').flatMap((text) => {
    const [ago = NaN, good = 0, disk = 0, bad = 0, later = 0] = text.split(',').map(Number);
    return Number.isNaN(ago) ? [] : [{ ago, good, disk, bad, later }];
  });
}

interface BarsProps {
  readonly bars: readonly Bar[];
  readonly count: number;
  readonly height: number;
  readonly label: string;
}

export function Bars({ bars, count, height, label }: BarsProps): JSX.Element {
  const most = Math.max(1, ...bars.map(sumOf));
  const shown = bars.filter(({ ago }) => ago >= 0 && ago < count);
  return (
    <svg
      class="bars"
      viewBox={`0 0 ${count} ${height}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {shown.map((bar) => (
        <Stack key={bar.ago} x={count - 1 - bar.ago + 0.1} width={0.8} height={height} most={most} of={bar} />
      ))}
    </svg>
  );
}

interface StackProps {
  readonly x: number;
  readonly width: number;
  readonly height: number;
  readonly most: number;
  readonly of: Counts;
}

function Stack({ x, width, height, most, of }: StackProps): JSX.Element {
  let top = height;
  return (
    <>
      {kinds.map(([kind]) => {
        // One request of a million must be visible, too.
        const size = of[kind] === 0 ? 0 : Math.max(1, (of[kind] / most) * height);
        top -= size;
        return size === 0 ? null : (
          <rect key={kind} class={kind} x={x} y={Math.max(0, top)} width={width} height={size} />
        );
      })}
    </>
  );
}

/** A duration as `headgate.traffic` gives it: an upper bound. */
export function boundText(ms: string | null): string {
  if (ms === null) return '–';
  return ms === 'Infinity' ? '> 10 s' : `≤ ${digitsText(ms)} ms`;
}

/** Requests that began within `barMs` after `atMs`. */
interface Moment extends Counts {
  readonly atMs: number;
}

/** Counts that are not in the row are 0. */
export function momentOf(row: ResultRow): Moment {
  const of = (name: string): number => Number(row[name] ?? 0);
  return {
    atMs: of('at') * 1_000,
    good: of('stored') - of('spooled'),
    disk: of('spooled'),
    bad: of('unauthorized') + of('refused'),
    later: of('unavailable'),
  };
}

interface TimeChartProps {
  /** null: not known yet. */
  readonly moments: readonly Moment[] | null;
  readonly fromMs: number;
  readonly untilMs: number;
  readonly barMs: number;
  /** A low one without a legend. */
  readonly isLow?: boolean;
  /** In words, for who cannot see it. */
  readonly label: string;
  readonly open: (fromMs: number, untilMs: number) => void;
  readonly zoom: (fromMs: number, untilMs: number) => void;
}

const [left, bottom, top] = [52, 22, 8];

/** Where the bars stand. */
interface Scale {
  readonly first: number;
  readonly count: number;
  readonly barMs: number;
  readonly width: number;
  readonly height: number;
  /** Of a bar with its gap. */
  readonly step: number;
  /** Of the space for bars. */
  readonly inner: number;
  readonly ticks: readonly number[];
  readonly most: number;
  readonly shown: readonly Moment[];
}

function scaleOf(props: TimeChartProps, off: readonly BarKind[], width: number): Scale {
  const { moments, fromMs, untilMs, barMs, isLow = false } = props;
  const height = isLow ? 84 : 190;
  const first = Math.floor(fromMs / barMs) * barMs;
  const count = Math.max(1, Math.ceil((untilMs - first) / barMs));
  const shown = (moments ?? [])
    .filter(({ atMs }) => atMs >= first && atMs < first + count * barMs)
    .map((it) => ({ ...it, ...Object.fromEntries(off.map((kind) => [kind, 0])) }));
  const ticks = moments === null ? [] : ticksOf(Math.max(1, ...shown.map(sumOf)), isLow ? 1 : 4);
  const [step, inner] = [(width - left - 8) / count, height - bottom - top];
  return { first, count, barMs, width, height, step, inner, ticks, most: ticks.at(-1) ?? 1, shown };
}

export function TimeChart(props: TimeChartProps): JSX.Element {
  const { label, untilMs } = props;
  const place = useRef<HTMLDivElement>(null);
  const width = useWidth(place);
  const [off, setOff] = useState<readonly BarKind[]>([]);
  const scale = scaleOf(props, off, width);
  const { at, range, handlers } = usePointing(place, scale, props);
  const atMs = scale.first + (at ?? 0) * scale.barMs;
  return (
    <figure class="chart">
      {props.isLow === true ? null : <Legend off={off} setOff={setOff} />}
      <div
        ref={place}
        class="plot"
        role="group"
        aria-label={`${label}. Arrow keys show the figures of a bar, Enter its requests.`}
        tabIndex={0}
        {...handlers}
      >
        <Plot scale={scale} at={at} range={range} label={label} untilMs={untilMs} />
        {at === null ? null : (
          <Tip
            of={scale.shown.find((it) => it.atMs === atMs) ?? { ...none, atMs }}
            barMs={scale.barMs}
            x={left + (at + 0.5) * scale.step}
            isBefore={at > scale.count / 2}
          />
        )}
      </div>
      <Figures moments={scale.shown} label={label} />
    </figure>
  );
}

function useWidth(place: RefObject<HTMLDivElement | null>): number {
  const [width, setWidth] = useState(800);
  useEffect(() => {
    const { current } = place;
    if (current === null) return undefined;
    const watching = new ResizeObserver(() => setWidth(Math.max(200, current.clientWidth)));
    watching.observe(current);
    return () => watching.disconnect();
  }, []);
  return width;
}

/** The bar under the pointer or chosen by keys; a click or Enter opens it, a drag chooses a range. */
function usePointing(place: RefObject<HTMLDivElement | null>, scale: Scale, { open, zoom }: TimeChartProps) {
  const { count, step, first, barMs } = scale;
  const [at, setAt] = useState<number | null>(null);
  const [drag, setDrag] = useState<number | null>(null);
  const timeOf = (bar: number): number => first + bar * barMs;
  const barAt = ({ clientX }: PointerEvent): number => {
    const from = place.current?.getBoundingClientRect().left ?? 0;
    return Math.min(count - 1, Math.max(0, Math.floor((clientX - from - left) / step)));
  };
  const keys: Readonly<Record<string, () => void>> = {
    ArrowLeft: () => setAt(Math.max(0, (at ?? count) - 1)),
    ArrowRight: () => setAt(Math.min(count - 1, (at ?? -1) + 1)),
    Enter: () => at !== null && open(timeOf(at), timeOf(at + 1)),
    Escape: () => setAt(null),
  };
  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      place.current?.setPointerCapture(event.pointerId);
      setAt(barAt(event));
      setDrag(barAt(event));
    },
    onPointerMove: (event: PointerEvent) => setAt(barAt(event)),
    onPointerUp: (event: PointerEvent) => {
      if (drag === null) return;
      setDrag(null);
      const [one, other] = [Math.min(drag, barAt(event)), Math.max(drag, barAt(event))];
      (other > one ? zoom : open)(timeOf(one), timeOf(other + 1));
    },
    onPointerCancel: () => setDrag(null),
    onPointerLeave: () => drag === null && setAt(null),
    onBlur: () => setAt(null),
    onKeyDown: (event: KeyboardEvent) => {
      const act = keys[event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    },
  };
  const range =
    drag === null || at === null || drag === at ? null : ([Math.min(drag, at), Math.max(drag, at)] as const);
  return { at, range, handlers };
}

interface LegendProps {
  readonly off: readonly BarKind[];
  readonly setOff: (off: readonly BarKind[]) => void;
}

function Legend({ off, setOff }: LegendProps): JSX.Element {
  return (
    <figcaption class="row-of wrap">
      {kinds.map(([kind, name]) => (
        <button
          key={kind}
          type="button"
          class="small quiet"
          aria-pressed={!off.includes(kind)}
          onClick={() => setOff(off.includes(kind) ? off.filter((it) => it !== kind) : [...off, kind])}
        >
          <span class={`swatch ${kind}`} /> {name}
        </button>
      ))}
    </figcaption>
  );
}

interface PlotProps {
  readonly scale: Scale;
  readonly at: number | null;
  readonly range: readonly [number, number] | null;
  readonly label: string;
  readonly untilMs: number;
}

function Plot({ scale, at, range, label, untilMs }: PlotProps): JSX.Element {
  const { first, count, barMs, width, height, step, inner, ticks, most, shown } = scale;
  return (
    <svg width={width} height={height} role="img" aria-label={label}>
      {ticks.map((tick) => {
        const y = top + inner - (tick / most) * inner;
        return (
          <g key={tick}>
            <line class="grid" x1={left} x2={width} y1={y} y2={y} />
            <text x={left - 8} y={y + 4} text-anchor="end">
              {shortText(tick)}
            </text>
          </g>
        );
      })}
      {range === null ? null : (
        <rect
          class="range"
          x={left + range[0] * step}
          y={top}
          width={(range[1] - range[0] + 1) * step}
          height={inner}
        />
      )}
      {at === null ? null : <rect class="under" x={left + at * step} y={top} width={step} height={inner} />}
      <g transform={`translate(0 ${top})`}>
        {shown.map((it) => (
          <Stack
            key={it.atMs}
            x={left + ((it.atMs - first) / barMs) * step + Math.min(1, step * 0.1)}
            width={Math.max(0.5, step - Math.min(2, step * 0.2))}
            height={inner}
            most={most}
            of={it}
          />
        ))}
      </g>
      {timesOf(first, count, barMs, width).map(({ bar, text }) => (
        <text key={bar} x={left + bar * step} y={height - 5} text-anchor="middle">
          {text}
        </text>
      ))}
      <text x={width - 2} y={height - 5} text-anchor="end">
        {Math.abs(Date.now() - untilMs) < 2 * barMs ? 'now' : minuteText(untilMs)}
      </text>
    </svg>
  );
}

interface TipProps {
  readonly of: Moment;
  readonly barMs: number;
  readonly x: number;
  /** It stands on the left of its bar. */
  readonly isBefore: boolean;
}

function Tip({ of, barMs, x, isBefore }: TipProps): JSX.Element {
  return (
    <div
      class={isBefore ? 'tip before' : 'tip'}
      role="status"
      // The policy allows no style attribute.
      ref={(it) => it?.style.setProperty('left', `${x}px`)}
    >
      <b>
        {minuteText(of.atMs)} – {minuteText(of.atMs + barMs)}
      </b>{' '}
      <span class="faint">{dayText(of.atMs)}</span>
      <dl>
        {kinds.map(([kind, name]) => (
          <div key={kind}>
            <dt>
              <span class={`swatch ${kind}`} /> {name}
            </dt>
            <dd>{digitsText(String(of[kind]))}</dd>
          </div>
        ))}
      </dl>
      <span class="faint">Click: these requests. Drag: zoom.</span>
    </div>
  );
}

/** For readers who cannot see the bars. */
function Figures({ moments, label }: { readonly moments: readonly Moment[]; readonly label: string }) {
  return (
    <table class="unseen">
      <caption>{label}</caption>
      <thead>
        <tr>
          <th>from</th>
          {kinds.map(([kind, name]) => (
            <th key={kind}>{name}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {moments.map((it) => (
          <tr key={it.atMs}>
            <th>
              {dayText(it.atMs)} {minuteText(it.atMs)}
            </th>
            {kinds.map(([kind]) => (
              <td key={kind}>{it[kind]}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** 0 and up to `parts` more, at round numbers, of which the last is not below `most`. */
function ticksOf(most: number, parts: number): readonly number[] {
  const rough = most / parts;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const step =
    [1, 2, 2.5, 5, 10].map((it) => it * power).find((it) => it >= rough && Number.isInteger(it)) ??
    power * 10;
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, i) => i * step);
}

function shortText(count: number): string {
  if (count < 10_000) return digitsText(String(count));
  return count < 1_000_000 ? `${count / 1_000} k` : `${count / 1_000_000} M`;
}

/** Round times of the page's zone, some 90 px apart, or every so many days; midnight has the name of its day. */
function timesOf(
  first: number,
  count: number,
  barMs: number,
  width: number,
): readonly { readonly bar: number; readonly text: string }[] {
  const hours = (count * barMs) / 3_600_000;
  const every = [1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440].find(
    (minutes) => (hours * 60) / minutes <= width / 90,
  );
  const minutes = every ?? 1_440;
  const days = Math.ceil((hours * 90) / (24 * width));
  const times: { bar: number; text: string }[] = [];
  // Beside the last one, `now`.
  const fits = (bar: number, px: number): boolean => bar < count - (count * px) / width;
  for (let bar = 0; fits(bar, 50); bar++) {
    const atMs = first + bar * barMs;
    const [hour = 0, minute = 0] = minuteText(atMs).split(':').map(Number);
    // Long bars need not begin at a round time of this zone.
    const beyond = (hour * 60 + minute) % minutes;
    if (beyond * 60_000 >= barMs) continue;
    const isDay = (hour * 60 + minute) * 60_000 < barMs;
    if (isDay && Math.floor(atMs / 86_400_000) % days !== 0) continue;
    times.push({ bar, text: isDay && fits(bar, 75) ? dayText(atMs) : minuteText(atMs) });
  }
  return times;
}
