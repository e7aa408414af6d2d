/** Outcomes as they arrive: one stream for the whole page, its last lines, and when each table was last written to. */
import { signal } from '@preact/signals';
import type { TailLine } from '../../observe/tail.ts';
import { tail, token } from './server.ts';

const linesMax = 500;
const pauseMinMs = 500;
const pauseMaxMs = 10_000;

export interface LiveLine extends TailLine {
  /** Numbered within this page. */
  readonly n: number;
}

export const lines = signal<readonly LiveLine[]>([]);
/** How many lines were not shown. */
export const skipped = signal(0);
export const connected = signal(false);
/** Keyed by schema and table, as JSON. */
export const lastSeen = signal<ReadonlyMap<string, TailLine>>(new Map());

let count = 0;

export const keyOf = (schema: string, table: string): string => JSON.stringify([schema, table]);

/** Watches while somebody is logged in; reconnects when the stream breaks. */
export function watchLive(): void {
  let ending: AbortController | null = null;
  token.subscribe((value) => {
    ending?.abort();
    ending = null;
    lines.value = [];
    lastSeen.value = new Map();
    skipped.value = 0;
    if (value === null) return;
    ending = new AbortController();
    void watch(ending.signal);
  });
}

async function watch(signal: AbortSignal): Promise<void> {
  let pauseMs = pauseMinMs;
  while (!signal.aborted) {
    // After a break the stream begins again with what the server remembers.
    let fresh = true;
    try {
      await tail((event) => {
        connected.value = true;
        pauseMs = pauseMinMs;
        add(event.lines, event.skipped, fresh);
        fresh = false;
      }, signal);
    } catch {
      // Tried again below.
    }
    connected.value = false;
    if (signal.aborted) return;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    pauseMs = Math.min(pauseMaxMs, pauseMs * 2);
  }
}

function add(came: readonly TailLine[], left: number, fresh: boolean): void {
  const numbered = came.map((line) => ({ ...line, n: (count += 1) }));
  lines.value = [...(fresh ? [] : lines.value), ...numbered].slice(-linesMax);
  skipped.value += left;
  const seen = new Map(lastSeen.value);
  for (const line of came) if (line.table !== '') seen.set(keyOf(line.schema, line.table), line);
  lastSeen.value = seen;
}
