/**
 * A sign of life for a person at a terminal: the first few requests of each second, and how many more there were. Takes every
 * observation; passes on the first answers of a second unchanged, and at its end one `requests.more` for the rest. Its output
 * can pass through it again: each listener process sends its part, and the main process merges them.
 */
import { limits } from '../config/limits.ts';
import type { Observation, Observe } from '../observe/observations.ts';

export type LoggedAnswer = Extract<
  Observation,
  { kind: 'request.answered' | 'gateway.answered' | 'batch.answered' }
>;
export type RequestLine = LoggedAnswer | Extract<Observation, { kind: 'requests.more' }>;

export interface LogTimer {
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

export function requestLines(tell: (line: RequestLine) => void, clock: LogTimer = realClock): Observe {
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
  return (observation) => {
    if (observation.kind === 'service.draining') return end();
    if (observation.kind === 'requests.more') return count(observation.requests, observation.refused);
    if (!isAnswered(observation)) return;
    const now = clock.now();
    if (!ends && now - beganMs >= secondMs) {
      beganMs = now;
      told = 0;
    }
    if (told < limits.requestLinesPerSMax) {
      told++;
      tell(observation);
    } else count(1, isRefused(observation) ? 1 : 0);
  };
}

function isAnswered(observation: Observation): observation is Observation & LoggedAnswer {
  const { kind } = observation;
  return kind === 'request.answered' || kind === 'gateway.answered' || kind === 'batch.answered';
}

export function isRefused(answered: LoggedAnswer): boolean {
  return answered.kind === 'batch.answered' ? answered.code !== 'committed' : answered.status >= 400;
}
