/**
 * A sign of life for a person at a terminal: the first few requests of each second, and how many more there were. Takes
 * observations; passes on the first answers of a second unchanged, and at its end one `requests.more` for the rest. Its output
 * can pass through it again: each listener process sends its part, and the main process merges them.
 */
import { limits } from '../config/limits.ts';
import type { Readers } from '../observe/context.ts';
import type { Observation } from '../observe/observations.ts';

type LoggedAnswer = Extract<
  Observation,
  { kind: 'request.answered' | 'gateway.answered' | 'batch.answered' }
>;
export type RequestLine = LoggedAnswer | Extract<Observation, { kind: 'requests.more' }>;

interface LogTimer {
  /** ms */
  readonly now: () => number;
  /** Calls back once after this many ms, without keeping the process alive. */
  readonly later: (ms: number, run: () => void) => void;
}

const realClock: LogTimer = {
  now: () => performance.now(),
  later: (ms, run) => void setTimeout(run, ms).unref(),
};

const secondMs = 1_000;

export function requestLines(tell: (line: RequestLine) => void, clock: LogTimer = realClock): Readers {
  let beganMs = Number.NEGATIVE_INFINITY;
  let told = 0;
  let requests = 0;
  let refused = 0;
  let ends = false;

  const end = () => {
    if (requests > 0) tell({ kind: 'requests.more', requests, refused });
    told = requests = refused = 0;
  };
  const count = (more: number, moreRefused: number) => {
    requests += more;
    refused += moreRefused;
    if (ends) return;
    ends = true;
    clock.later(Math.max(0, beganMs + secondMs - clock.now()), () => {
      ends = false;
      end();
      beganMs = clock.now();
    });
  };
  const answered = (answer: LoggedAnswer) => {
    const now = clock.now();
    if (!ends && now - beganMs >= secondMs) {
      beganMs = now;
      told = 0;
    }
    if (told < limits.requestLinesPerSMax) {
      told++;
      tell(answer);
    } else count(1, isRefused(answer) ? 1 : 0);
  };
  return {
    'service.draining': end,
    'requests.more': (more) => count(more.requests, more.refused),
    'request.answered': answered,
    'gateway.answered': answered,
    'batch.answered': answered,
  };
}

export function isRefused(answered: LoggedAnswer): boolean {
  return answered.kind === 'batch.answered' ? answered.code !== 'committed' : answered.status >= 400;
}
