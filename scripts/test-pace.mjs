// How many test files run at a time, and in which order.
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

const always = 2;
const most = 3 * Math.max(always, Math.min(4, cpus().length));
/** A share of all processors. */
const idleMin = 0.1;
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

/** By what test-seconds.json says; what is not in it takes less than a second, unless it starts the whole program. */
function secondsOf(file) {
  return seconds[file] ?? (/^dist\/test\/(crash|e2e|deploy)\//.test(file) ? 3 : 0.5);
}

/** Of the files of one process. */
const togetherMax = 20;
const togetherSecondsMax = 40;
/** What takes longer has a process of its own. */
const shortSeconds = 10;

/**
 * The files of each process, those that take longest first. Short ones share one, and those of them that need a database and no
 * whole program share its server, too.
 */
export function processes(files) {
  const isShort = (file) => secondsOf(file) <= shortSeconds;
  const all = files.filter((file) => !isShort(file)).map((file) => [file]);
  for (const isPg of [true, false]) {
    let open = null;
    for (const file of files.filter((file) => isShort(file) && file.endsWith('.pg.test.js') === isPg)) {
      if (open === null || open.length === togetherMax || total(open) + secondsOf(file) > togetherSecondsMax)
        all.push((open = []));
      open.push(file);
    }
  }
  return all.toSorted((a, b) => total(b) - total(a));
}

function total(files) {
  return files.reduce((sum, file) => sum + secondsOf(file), 0);
}
