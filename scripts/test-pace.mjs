// How many test files run at a time, and in which order.
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

const always = 2;
const most = 3 * Math.max(always, Math.min(4, cpus().length));
/** A share of all processors. */
const idleMin = 0.2;
const lookMs = 300;
/** What a file does at first, starting a program or an engine, says little of the rest. */
const settleMs = 900;

/** Two at a time; while the processors have nothing to do, because files wait, one more. */
export class Pace {
  #last = ticks();
  #idle = 0;
  #beganAt = 0;

  allows(running) {
    const enough =
      running >= always && (running >= most || this.#idle < idleMin || Date.now() < this.#beganAt + settleMs);
    if (!enough) this.#beganAt = Date.now();
    return !enough;
  }

  async next() {
    await delay(lookMs);
    const now = ticks();
    if (now.all - this.#last.all < 10) return;
    this.#idle = (now.idle - this.#last.idle) / (now.all - this.#last.all);
    this.#last = now;
  }
}

function ticks() {
  let idle = 0;
  let all = 0;
  for (const { times } of cpus()) {
    idle += times.idle;
    for (const ms of Object.values(times)) all += ms;
  }
  return { idle, all };
}

const seconds = JSON.parse(readFileSync(new URL('test-seconds.json', import.meta.url), 'utf8'));

/** By what test-seconds.json says; what is not in it is short, unless it starts the whole program. */
export function longestFirst(files) {
  const guess = (file) =>
    seconds[file] ?? (/^dist\/test\/(crash|e2e|deploy)\//.test(file) ? 6 : file.includes('.pg.') ? 3 : 0);
  return files.toSorted().toSorted((a, b) => guess(b) - guess(a));
}

const togetherMax = 20;

/** The files of one process each: short ones that stand beside what they test, and start nothing, share one. */
export function processes(files) {
  const isAlone = (file) => !/^dist\/src\/.*(?<!\.pg)\.test\.js$/.test(file) || seconds[file] !== undefined;
  const together = files.filter((file) => !isAlone(file));
  const several = [];
  for (let i = 0; i < together.length; i += togetherMax) several.push(together.slice(i, i + togetherMax));
  return [...files.filter(isAlone).map((file) => [file]), ...several];
}
