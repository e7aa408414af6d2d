import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Observation } from '../observe/observations.ts';
import { createLog, ThrottledLog } from './log.ts';
import type { LogLevel } from './log.ts';

function thinnedAt(burst: number, perSecond: number) {
  const state = { nowMs: 0, told: [] as string[], timers: [] as (() => void)[] };
  const timing = { clock: () => state.nowMs, after: (run: () => void) => void state.timers.push(run) };
  const thinned = new ThrottledLog(
    burst,
    perSecond,
    timing,
    (kind, lines) => void state.told.push(`${kind} ${lines}`),
  );
  const passing = (kind: string, count: number): number =>
    Array.from({ length: count }, () => thinned.passes(kind)).filter(Boolean).length;
  return { state, thinned, passing };
}

test('the log throttle passes a burst of each kind, then some lines a second, and tells the number of omitted lines', () => {
  const { state, thinned, passing } = thinnedAt(5, 2);
  assert.equal(passing('a', 100), 5);
  assert.equal(passing('b', 3), 3);
  assert.deepEqual(state.told, []);
  assert.equal(state.timers.length, 1);
  state.nowMs = 1_000;
  state.timers.shift()?.();
  assert.deepEqual(state.told, ['a 95']);
  assert.equal(passing('a', 100), 2);
  state.nowMs = 60_000;
  assert.equal(passing('a', 100), 5);
  thinned.tellAll();
  assert.deepEqual(state.told, ['a 95', 'a 193']);
  // A timer that comes too late has nothing to tell.
  state.timers.shift()?.();
  assert.equal(state.told.length, 2);
});

function linesOf(level: LogLevel, observations: readonly Observation[]): string[] {
  const lines: string[] = [];
  const log = createLog({
    level,
    format: 'json',
    now: () => 0,
    write: (line) => void lines.push(line),
    thinned: { clock: () => 0, after: () => undefined },
  });
  for (const observation of observations) log(observation);
  return lines;
}

test('the log throttle tells omitted lines at the end, keeps other levels, and omits nothing at level debug', () => {
  const error = { kind: 'engine.said', line: 'ERROR:  x' } as const;
  const flood = Array.from({ length: 1_000 }, (): Observation => error);
  const panic = { kind: 'engine.said', line: 'PANIC:  x' } as const;
  const all = [...flood, panic, { kind: 'service.stopped' } as const];
  const lines = linesOf('info', all);
  assert.equal(lines.length, 200 + 3);
  assert.match(lines[200] ?? '', /PANIC/);
  assert.match(lines[201] ?? '', /"of":"engine.said","lines":800/);
  assert.equal(linesOf('debug', all).length, 1_002);
});
