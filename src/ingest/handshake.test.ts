import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TableAnswers, HandshakeRule } from '../types/answers.ts';
import type { Arrival } from '../types/request.ts';
import type { AskedHandshake } from '../types/journal.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import { SenderHandshakes } from './handshake.ts';

const name = { database: 'dev', schema: 'public', table: 't' };

/** Answers with its place what has that text in its target. */
function rule(place: number, word: string, methods: readonly string[] | null = null): HandshakeRule {
  return {
    place,
    methods: methods === null ? null : new Set(methods),
    answer: ({ target, body }) =>
      target.includes(word) || body.includes(word)
        ? { status: 200, type: null, headers: [], body: String(place) }
        : null,
  };
}

function target(answers: Partial<TableAnswers>, check: Target['check'] = null): Target {
  const none: TableAnswers = { unchecked: [], checked: [], asksByPost: true, committed: null };
  return { ...name, oid: 1, check, answers: { ...none, ...answers } } as unknown as Target;
}

function deps(known: Target | null | undefined, find: RefusalCode = 'engine_unavailable') {
  const told: AskedHandshake[] = [];
  let nowMs = 0;
  const handshakes = new SenderHandshakes({
    catalog: {
      lastKnown: () => known,
      find: () => Promise.reject(new Refused(find)),
      isStill: () => true,
    },
    learning: { learn: () => Promise.resolve(false) },
    rejects: { asked: (handshake) => void told.push(handshake) },
    observe: () => undefined,
    clock: () => nowMs,
    limits,
  });
  return { handshakes, told, pass: (ms: number) => (nowMs += ms) };
}

function arrival(change: Partial<Arrival> = {}): Arrival {
  return {
    method: 'GET',
    target: '/webhook/dev/public/t?a',
    rawHeaders: [],
    arrivedAtMs: 5,
    remoteAddress: '192.0.2.1',
    body: () => Promise.reject(new Error('nobody needs the body')),
    ...change,
  };
}

async function place(known: Target | null | undefined, asked: Partial<Arrival> = {}): Promise<string | null> {
  const answer = await deps(known).handshakes.ask(arrival(asked));
  if (answer === 'stored') return answer;
  return 'code' in answer ? null : answer.kind === 'asked' ? answer.answer.body : answer.kind;
}

test('the first ANSWER rule that matches a handshake answers, and rules for other methods are not tried', async () => {
  const known = target({
    unchecked: [rule(1, 'a', ['HEAD']), rule(2, 'nothing'), rule(3, 'a', ['GET']), rule(4, 'a')],
  });
  assert.equal(await place(known), '3');
  assert.equal(await place(known, { method: 'HEAD' }), '1');
  assert.equal(await place(known, { method: 'OPTIONS' }), '4');
});

test('a request with a method of the table is stored unless an ANSWER rule matches, and a 405 lists the methods', async () => {
  const known = { ...target({ unchecked: [rule(1, 'a')] }), methods: new Set(['GET', 'PUT']) };
  assert.equal(await place(known), '1');
  const other = { target: '/webhook/dev/public/t?b' };
  assert.equal(await place(known, other), 'stored');
  // No sender asks with a PUT.
  assert.equal(await place(known, { method: 'PUT' }), 'stored');
  const refused = await deps(known).handshakes.ask(arrival({ ...other, method: 'HEAD' }));
  assert.ok(typeof refused === 'object' && 'code' in refused);
  assert.deepEqual([refused.code, refused.allow], ['method_not_allowed', 'GET, PUT']);
});

test('handshake rules without UNCHECKED answer only after VALIDATE', async () => {
  const rules = { checked: [rule(1, 'a')] };
  assert.equal(await place(target(rules, () => true)), '1');
  assert.equal(await place(target(rules, () => false)), null);
  assert.equal(await place(target(rules)), null);
  assert.equal(await place(target(rules, 'unusable')), null);
  assert.equal(await place(target({ ...rules, unchecked: [rule(2, 'a')] }, () => false)), '2');
});

test("a handshake's small body is read, and a larger one matches no rule", async () => {
  const known = target({ unchecked: [rule(1, 'inside')] });
  const body = () => Promise.resolve(Buffer.from('inside'));
  assert.equal(await place(known, { announcedBytes: 6, body }), '1');
  assert.equal(await place(known, { announcedBytes: limits.handshakeBodyBytesMax + 1 }), null);
  for (const header of ['Transfer-Encoding', 'content-encoding'])
    assert.equal(await place(known, { announcedBytes: 6, rawHeaders: [header, 'x'] }), null);
});

test('a request to a table without ANSWER clauses is no handshake, and an unavailable catalog is reported', async () => {
  assert.equal(await place(null), null);
  assert.equal(await place({ ...target({}), answers: undefined }), null);
  assert.equal(await place(target({ unchecked: [rule(1, 'a')] }), { target: '/%' }), null);
  await assert.rejects(place(undefined), ({ refusal }: Refused) => refusal.code === 'engine_unavailable');
});

test('where no table is, a request is told what a POST is told, and without the engine only that its method is not', async () => {
  const code = async (
    known: null | undefined,
    find: 'not_found' | 'engine_unavailable',
    target = '/webhook/dev/public/t',
  ) => {
    const answer = await deps(known, find).handshakes.ask(arrival({ target }));
    return typeof answer === 'object' && 'code' in answer ? answer.code : null;
  };
  assert.equal(await code(undefined, 'not_found'), 'not_found');
  assert.equal(await code(null, 'not_found'), 'not_found');
  assert.equal(await code(null, 'engine_unavailable'), 'method_not_allowed');
  assert.equal(await code(null, 'not_found', '/webhook/dev/%'), 'malformed_path');
});

test('a table answers a bounded burst of handshakes, and counts UNCHECKED and validated ones separately', async () => {
  const known = target({ unchecked: [rule(1, 'open')], checked: [rule(2, 'signed')] }, () => true);
  const { handshakes, told, pass } = deps(known);
  const ask = async (word: string) => {
    const answer = await handshakes.ask(arrival({ target: `/webhook/dev/public/t?${word}` }));
    return typeof answer === 'object' && 'kind' in answer ? answer.kind : undefined;
  };
  for (let n = 0; n < limits.handshakesBurst; n++) assert.equal(await ask('open'), 'asked');
  const tooMany = await handshakes.ask(arrival({ target: '/webhook/dev/public/t?open' }));
  assert.ok(typeof tooMany === 'object' && 'kind' in tooMany && tooMany.kind === 'askedTooOften');
  assert.equal(tooMany.refusal.retryAfterSeconds, 1);
  assert.equal(await ask('signed'), 'asked');
  pass(1_000 / limits.handshakesPerSecond);
  assert.equal(await ask('open'), 'asked');
  assert.equal(await ask('open'), 'askedTooOften');
  assert.equal(await ask('neither'), undefined);
  assert.deepEqual(
    told.slice(-2).map(({ outcome, status, place: at }) => [outcome, status, at]),
    [
      ['too_many', 429, 1],
      ['unmatched', 405, null],
    ],
  );
});

test('a POST with a large body gets no UNCHECKED answer, but may get one after VALIDATE', async () => {
  const known = target({ unchecked: [rule(1, 'a')], checked: [rule(2, 'b')] }, () => true);
  const { handshakes } = deps(known);
  const request = {
    method: 'POST',
    target: '/?a',
    rawHeaders: [],
    arrivedAtMs: 0,
    body: Buffer.alloc(limits.handshakeBodyBytesMax + 1),
  };
  const answers = known.answers;
  assert.ok(answers);
  assert.equal(handshakes.posted(known, answers, request, '', 'unchecked'), null);
  assert.equal(
    handshakes.posted(known, answers, { ...request, body: Buffer.alloc(1) }, '', 'unchecked')?.kind,
    'asked',
  );
  const read = () => Promise.resolve(Buffer.from('b'));
  const post = arrival({ method: 'POST', target: '/', announcedBytes: 1 });
  assert.equal((await handshakes.meanwhile(known, post, read))?.kind, 'asked');
  assert.equal(await handshakes.meanwhile(null, post, read), null);
  assert.equal(
    await handshakes.meanwhile(target({ unchecked: [rule(1, 'b')], asksByPost: false }), post, read),
    null,
  );
});
