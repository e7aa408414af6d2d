/** Outcomes as they arrive: one stream for the whole page, its last lines, and when each table was last written to. */
import { signal } from '@preact/signals';
import type { TailLine } from '../../observe/tail.ts';
import type { TailEvent } from '../api.ts';
import { tail, token } from './server.ts';

const linesMax = 500;
const pauseMinMs = 500;
const pauseMaxMs = 2_000;

interface LiveLine extends TailLine {
  /** Numbered within this page. */
  readonly n: number;
  /** It was told when the stream began, and may have come before anything else was read. */
  readonly isRemembered: boolean;
}

export const lines = signal<readonly LiveLine[]>([]);
/** How many lines were not shown. */
export const skipped = signal(0);
export const connected = signal(false);
/** Keyed by schema and table, as JSON. */
export const lastSeen = signal<ReadonlyMap<string, TailLine>>(new Map());

let count = 0;

export const keyOf = (schema: string, table: string): string => JSON.stringify([schema, table]);

/**
 * Watches while somebody is logged in and the tab is shown: a browser opens six connections to a host at most, for all of its tabs. Reconnects
 * when the stream breaks.
 */
export function watchLive(): void {
  let ending: AbortController | null = null;
  let watched: string | null = null;
  const look = (): void => {
    const wanted = document.hidden ? null : token.value;
    if (wanted === watched) return;
    watched = wanted;
    ending?.abort();
    ending = null;
    connected.value = false;
    if (wanted === null) return;
    ending = new AbortController();
    void watch(ending.signal);
  };
  document.addEventListener('visibilitychange', look);
  token.subscribe((value) => {
    if (value === null) {
      lines.value = [];
      lastSeen.value = new Map();
      skipped.value = 0;
    }
    look();
  });
}

async function watch(signal: AbortSignal): Promise<void> {
  let pauseMs = pauseMinMs;
  while (!signal.aborted) {
    // After a break the stream begins again with what the server remembers.
    let fresh = true;
    const open = (): void => {
      connected.value = true;
      pauseMs = pauseMinMs;
    };
    const told = (event: TailEvent): void => {
      if (event.lines.length + event.skipped === 0) return;
      add(event.lines, event.skipped, fresh);
      fresh = false;
    };
    await tail(open, told, signal).catch(() => undefined);
    if (signal.aborted) return;
    connected.value = false;
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    pauseMs = Math.min(pauseMaxMs, pauseMs * 2);
  }
}

function add(came: readonly TailLine[], left: number, fresh: boolean): void {
  const numbered = came.map((line) => ({ ...line, n: (count += 1), isRemembered: fresh }));
  lines.value = [...(fresh ? [] : lines.value), ...numbered].slice(-linesMax);
  // Of those that are remembered the oldest are left out.
  if (!fresh) skipped.value += left;
  const seen = new Map(lastSeen.value);
  for (const line of came) if (line.table !== '') seen.set(keyOf(line.schema, line.table), line);
  lastSeen.value = seen;
}
