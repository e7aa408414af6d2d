// How many test files run at once, and in which order.
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';

const always = 2;
const most = 3 * Math.max(always, Math.min(4, cpus().length));
/** A share of all processors. */
const idleMin = 0.1;
const lookMs = 300;
/** The beginning of a file, which starts a program or an engine, is not typical of the rest. */
const settleMs = 900;

/** Two at once; one more while the processors are idle because files wait. */
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

/** From test-seconds.json; files not in it take less than a second, unless they start the whole program. */
function secondsOf(file) {
  return seconds[file] ?? (/^dist\/test\/(crash|e2e|deploy)\//.test(file) ? 3 : 0.5);
}

/** For the files of one process. */
const togetherMax = 20;
const togetherSecondsMax = 40;
/** Files that take longer get a process of their own. */
const shortSeconds = 10;

/**
 * The files of each process, longest first. Short files share a process; those of them that need a database but not the whole
 * program share its server, too.
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
