import assert from 'node:assert/strict';
import { test } from 'node:test';
import { targetOf } from '../../test/support/rows.ts';
import type { RejectedRequest } from '../types/journal.ts';
import { limits } from '../config/limits.ts';
import { refusal } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import { describe } from './redact.ts';
import { RefusalReasons } from './rejected-rows.ts';
import type { Kept } from './rejected-rows.ts';

const never = new AbortController().signal;

function kept(code: RefusalCode, body: Buffer | null, bodyBytes: number | null, why: () => string): Kept {
  const request: RejectedRequest = {
    target: { ...targetOf({}), whyRefused: () => ({ reason: why(), cause: { kind: 'other' } }) },
    refusal: refusal(code, 'refused'),
    door: 'http',
    authenticated: false,
    method: 'POST',
    requestTarget: '/',
    rawHeaders: [],
    arrivedAtMs: 0,
    remoteAddress: '',
    body: null,
  };
  return { request, description: describe(request, body, bodyBytes, limits) };
}

test('refusal reasons are evaluated in a bounded burst, then at a bounded rate', async () => {
  let now = 0;
  let evaluated = 0;
  const why = new RefusalReasons(
    { ...limits, rejectedExplainedBurst: 3, rejectedExplainedPerSecond: 2 },
    () => now,
  );
  const flood = Array.from({ length: 10 }, () =>
    kept('signature_failed', Buffer.of(), 0, () => `no ${++evaluated}`),
  );
  const reasons = async () => (await why.tell(flood, never)).map(({ reason }) => reason).slice(0, 4);
  assert.deepEqual(await reasons(), ['refused: no 1', 'refused: no 2', 'refused: no 3', 'refused']);
  now = 1_000;
  assert.deepEqual(await reasons(), ['refused: no 4', 'refused: no 5', 'refused', 'refused']);
  assert.equal(evaluated, 5);
});

test('refusal reasons exist only for complete requests refused by VALIDATE within the size bound', async () => {
  const why = new RefusalReasons(limits, () => 0);
  const tell = async (it: Kept, signal = never) => (await why.tell([it], signal))[0]?.reason;
  const say = () => 'why';
  assert.equal(await tell(kept('signature_failed', Buffer.of(1), 1, say)), 'refused: why');
  assert.equal(await tell(kept('row_refused', Buffer.of(1), 1, say)), 'refused');
  assert.equal(await tell(kept('signature_failed', Buffer.of(1), 2, say)), 'refused');
  assert.equal(await tell(kept('signature_failed', null, null, say)), 'refused');
  assert.equal(await tell(kept('signature_failed', Buffer.of(1), 1, say), AbortSignal.abort()), 'refused');
  const bug = () => {
    throw new Error('a bug');
  };
  assert.equal(await tell(kept('signature_failed', Buffer.of(), 0, bug)), 'refused');
  const long = await tell(kept('signature_failed', Buffer.of(), 0, () => '\0😀'.repeat(1_000)));
  assert.equal(long?.length, limits.rejectedReasonCharsMax);
  assert.doesNotMatch(long, /\p{Cs}/u);
  assert(!long.includes('\0'));
});
