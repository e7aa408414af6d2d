import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { observers } from '../observe/context.ts';
import type { Observation } from '../observe/observations.ts';
import { createLog } from './log.ts';
import { requestLines } from './request-lines.ts';
import type { RequestLine } from './request-lines.ts';

const table = { database: 'dev', schema: 'public', table: 't' };
const stored: Observation = {
  kind: 'request.answered',
  table,
  status: 200,
  code: 'committed',
  rows: 1,
  seconds: 0.002_134,
  remoteAddress: '192.0.2.7',
};
const refused: Observation = { ...stored, status: 401, code: 'signature_failed', rows: 0 };

/** A clock that stands until it is moved; what falls due is run on the way. */
class StandingClock {
  nowMs = 0;
  readonly #due: { atMs: number; run: () => void }[] = [];
  readonly now = () => this.nowMs;
  readonly later = (ms: number, run: () => void) => void this.#due.push({ atMs: this.nowMs + ms, run });

  move(ms: number): void {
    const until = this.nowMs + ms;
    for (;;) {
      const next = this.#due.findIndex(({ atMs }) => atMs <= until);
      const [due] = next < 0 ? [] : this.#due.splice(next, 1);
      if (due === undefined) break;
      this.nowMs = due.atMs;
      due.run();
    }
    this.nowMs = until;
  }

  get waiting(): number {
    return this.#due.length;
  }
}

function sampled() {
  const clock = new StandingClock();
  const told: RequestLine[] = [];
  return { clock, told, observe: observers(requestLines((line) => void told.push(line), clock)) };
}

const kinds = (told: readonly RequestLine[]) => told.map(({ kind }) => kind);

suite('the request log bounds its lines under load', () => {
  test('the request log prints few requests one by one, at once', () => {
    const { clock, told, observe } = sampled();
    for (let i = 0; i < 40; i++) {
      observe(i % 4 === 0 ? refused : stored);
      clock.move(250);
    }
    assert.equal(told.length, 40);
    assert.equal(clock.waiting, 0);
  });

  test('the request log prints five requests a second, then counts the others and the refused ones', () => {
    const { clock, told, observe } = sampled();
    for (let i = 0; i < 1_239; i++) observe(i < 1_227 ? stored : refused);
    assert.equal(told.length, 5);
    clock.move(1_000);
    assert.deepEqual(told.splice(0).at(-1), { kind: 'requests.more', requests: 1_234, refused: 12 });
    // The next second has its own five.
    for (let i = 0; i < 6; i++) observe(stored);
    clock.move(1_000);
    assert.deepEqual(kinds(told), [...Array.from({ length: 5 }, () => 'request.answered'), 'requests.more']);
  });

  test('the request log prints at most six lines a second with one timer, however long the load lasts', () => {
    const { clock, told, observe } = sampled();
    for (let second = 0; second < 10; second++) {
      for (let i = 0; i < 100; i++) {
        observe(stored);
        clock.move(10);
        assert.ok(clock.waiting <= 1);
      }
    }
    clock.move(1_000);
    assert.ok(told.length <= 60, String(told.length));
    const more = told.reduce((sum, line) => sum + (line.kind === 'requests.more' ? line.requests : 1), 0);
    assert.equal(more, 1_000);
  });

  test('the request log merges the counts of several processes and prints the rest on stop', () => {
    const clock = new StandingClock();
    const told: RequestLine[] = [];
    const whole = observers(requestLines((line) => void told.push(line), clock));
    const parts = [1, 2].map(() => observers(requestLines(whole, clock)));
    for (let i = 0; i < 20; i++) parts.forEach((part) => part(stored));
    clock.move(1_000);
    clock.move(1_000);
    assert.equal(told.filter(({ kind }) => kind === 'request.answered').length, 5);
    const more = told.reduce((sum, line) => sum + (line.kind === 'requests.more' ? line.requests : 0), 0);
    assert.equal(more, 35);
    for (let i = 0; i < 7; i++) whole(refused);
    whole({ kind: 'service.draining', reason: 'SIGTERM' });
    assert.deepEqual(told.at(-1), { kind: 'requests.more', requests: 2, refused: 2 });
  });
});

suite('the lines of the request log depend on level and format', () => {
  function logged(
    format: 'json' | 'pretty',
    level: 'debug' | 'info' | 'warn',
    ...observations: Observation[]
  ): string {
    let text = '';
    const log = createLog({ level, format, write: (line) => void (text += line), now: () => 0 });
    observations.forEach(log);
    return text;
  }

  test('request log lines are short, give the reason, and name the client of a refused request', () => {
    const gateway: Observation = {
      kind: 'gateway.answered',
      requestId: 'r',
      route: 'events',
      remoteAddress: '::1',
      status: 200,
      code: 'ok',
      rows: 1_500,
      seconds: 0.01,
    };
    const batch: Observation = { kind: 'batch.answered', table, code: 'committed', rows: 2, seconds: 0.5 };
    const hostile = { ...table, table: 'a\n\u001b[31m.b' };
    assert.equal(
      logged('pretty', 'info', stored, { ...refused, table: hostile }, gateway, batch),
      `00:00:00.000 200 dev.public.t  1 row  2.134 ms
00:00:00.000 401 "dev.public.\\"a\\n\\u001b[31m.b\\""  signature_failed  192.0.2.7
00:00:00.000 200 gateway events  1,500 rows  10 ms
00:00:00.000 ack dev.public.t  2 rows  500 ms
`,
    );
  });

  test('request lines appear in text logs at level info, at length at debug, and neither at warn nor in JSON', () => {
    assert.equal(logged('json', 'info', stored, refused), '');
    assert.equal(logged('pretty', 'warn', stored, refused), '');
    assert.match(logged('pretty', 'debug', stored), /^00:00:00\.000 DEBUG request\.answered [^\n]*\n$/);
  });
});
