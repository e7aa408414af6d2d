/**
 * What the console says of a refusal: each code of docs/errors.md, and each sender's stale, tampered, unsigned and wrongly signed request. The
 * sender's own side makes the requests; VALIDATE, whose answers PostgreSQL's are compared with elsewhere, decides what was wrong.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { suite, test } from 'node:test';
import { briefOf } from '../console/outcome-summary.ts';
import type { ToExplain } from '../console/outcome-summary.ts';
import { explain } from '../console/explained.ts';
import { keptLimits } from '../console/request-rows.ts';
import { formReason } from '../decode/messages.ts';
import { spanText } from '../kit/duration.ts';
import { hintOfRefusal, isWorthKeeping, refusals } from '../errors/refusals.ts';
import type { RefusalCode } from '../errors/refusals.ts';
import type { SecretKeys, Sender } from '../senders/sender.ts';
import { limits } from '../config/limits.ts';
import { expressionOf, senders, signedRequest } from '../senders/senders.ts';
import type { SignedRequest } from '../senders/senders.ts';
import { tampered } from '../senders/send-changes.ts';
import { explainRefusal } from '../validate/explain.ts';
import { loadParser } from '../validate/expression.ts';

await loadParser();

const publicUrl = 'https://hooks.example.com';
const url = `${publicUrl}/webhook/dev/public/events`;
const nowMs = Date.UTC(2026, 2, 4, 5, 6, 7, 89);
const plain: ToExplain = {
  status: 0,
  code: '',
  reason: null,
  cause: null,
  sender: null,
  door: 'http',
  bytes: 10,
  rows: 0,
};
/** No word of SQL, no function, no system text. */
const isSpoken = (text: string): void =>
  assert.doesNotMatch(
    text,
    /SELECT|VALIDATE|hmac\(|encode\(|::|NULL|ECONN|undefined|NaN|\[object|successfully|_failed/,
    text,
  );

function randomFrom(seed: string): (size: number) => Buffer {
  let count = 0;
  return (size) => createHash('shake256', { outputLength: size }).update(`${seed}${count++}`).digest();
}

function requestOf(sender: Sender, keys: SecretKeys, atMs = nowMs): SignedRequest {
  const id = 'a1b2c3d4e5f60718293a4b5c6d7e8f90';
  const body = Buffer.from(sender.example({ id, nowMs: atMs }));
  return signedRequest(sender, { method: 'POST', url, body, nowMs: atMs, signingKey: keys.signingKey, id });
}

function said(sender: Sender, secret: string, sent: SignedRequest) {
  const request = {
    method: sent.method,
    target: sent.url.slice(publicUrl.length),
    rawHeaders: Object.entries(sent.headers).flatMap(([name, value]) => [
      name,
      Buffer.from(value).toString('latin1'),
    ]),
    arrivedAtMs: nowMs,
    body: sent.body,
  };
  const values = { secrets: new Map([['s', secret]]), publicUrl };
  const { reason, cause } = explainRefusal(expressionOf(sender, 's'), values, request);
  const it = { ...plain, status: 401, code: 'signature_failed', reason, cause, sender: sender.name };
  const { title, says, todo } = explain(it);
  for (const text of [title, says, briefOf(it), ...todo.flatMap(({ what, why }) => [what, why])])
    isSpoken(text);
  assert(briefOf(it).length <= 40, briefOf(it));
  assert(todo.length > 0);
  assert.doesNotMatch(title + says, new RegExp(secret.replaceAll(/[^\w]/g, '.').slice(0, 40)));
  return { title, says, cause, reason };
}

suite('the console explains each refusal in a sentence', () => {
  test('the console has a sentence and advice for each refusal code of a request', () => {
    for (const [code, { status }] of Object.entries(refusals)) {
      const it = { ...plain, code, status, reason: refusals[code as keyof typeof refusals].message };
      const { title, says, todo } = explain(it);
      for (const text of [title, says, briefOf(it)]) isSpoken(text);
      assert.match(title, /^[A-Z].*\.$/, code);
      assert(briefOf(it).length <= 40, `${code}: ${briefOf(it)}`);
      assert(todo.length > 0, code);
    }
  });

  test('the console has words of its own for each refusal whose request is kept', () => {
    for (const code of (Object.keys(refusals) as RefusalCode[]).filter(isWorthKeeping)) {
      const { status, message: reason } = refusals[code];
      const it = { ...plain, code, status, reason };
      const unknown = new RegExp(code.replaceAll('_', ' '), 'i');
      assert.doesNotMatch(`${explain(it).title} ${explain(it).says}`, unknown, code);
      assert.doesNotMatch(briefOf(it), unknown, code);
    }
  });

  test('the console names a request without an endpoint by the last part of its path', () => {
    const it = { ...plain, status: 404, code: 'not_found', path: '/webhook/dev/public/paymets' };
    assert.equal(briefOf(it), 'No endpoint at …/paymets');
    assert.equal(briefOf({ ...it, path: '/a/b/' }), 'No endpoint at …/b/');
    assert(briefOf({ ...it, path: `/webhook/${'x'.repeat(9_000)}` }).length < 40);
    for (const code of ['not_found', 'method_not_allowed'])
      assert.match(explain({ ...it, code, status: 405 }).says, /It called \/webhook\/dev\/public\/paymets\./);
  });

  test("the console's explanation of a refusal names the column that PostgreSQL names", () => {
    const reason = 'column "total": invalid input syntax for type numeric: "much"';
    const it = { ...plain, code: 'payload_undecodable', status: 422, reason };
    assert.equal(explain(it).title, 'The value for column total does not fit it.');
    assert.equal(briefOf(it), 'Column total does not fit');
    const form = explain({ ...it, reason: `failed to decode: ${formReason}` });
    assert.equal(form.title, 'The body is a form, and the table takes JSON.');
    assert.match(form.todo[0]?.what ?? '', /application\/json/);
  });

  test('the console offers a retry only of a request whose whole body is kept, and names the limit otherwise', () => {
    const { rejectedBurst, rejectedAuthenticBurst, rejectedPerSecond } = limits;
    const { rejectedBodyBytesMax, rejectedAuthenticBodyBytesMax } = limits;
    const flood = new RegExp(
      `${rejectedAuthenticBurst.toLocaleString('en')} that passed its check and ${rejectedBurst} others are kept at once, and of each kind ${rejectedPerSecond} a second`,
    );
    const part = new RegExp(
      `the first ${rejectedAuthenticBodyBytesMax / 1_048_576} MiB of .* otherwise the first ${rejectedBodyBytesMax / 1_024} KiB`,
    );
    for (const code of ['payload_undecodable', 'row_refused', 'no_column_matched', 'key_unknown']) {
      const last = (more: Partial<ToExplain>) =>
        explain({ ...plain, code, status: 422, bytes: 100_000, ...more }).todo.at(-1);
      assert.equal(last({ keptBytes: 100_000 })?.what, 'Then retry it here.');
      assert.match(last({ keptBytes: 100_000, owned: false })?.what ?? '', /the owner of its table retry it/);
      const others = [
        [{ keptBytes: rejectedBodyBytesMax }, part],
        [{ keptBytes: null }, flood],
        [{}, flood],
        [{ keptBytes: 100_000, door: 'websocket' }, /only its client can repeat/],
      ] as const;
      for (const [more, why] of others) {
        assert.match(last(more)?.what ?? '', /^Then let its (sender|client) send it again\.$/);
        assert.match(last(more)?.why ?? '', why);
      }
    }
    assert.match(keptLimits, flood);
  });

  test("the console's explanation of a body that is not JSON says where, and that a retry cannot help", () => {
    const reason = 'failed to decode webhook JSON payload: unexpected character at byte 1';
    const it = { ...plain, code: 'payload_undecodable', status: 422, reason };
    assert.equal(explain(it).title, 'The body is not JSON: unexpected character at byte 1.');
    assert.equal(
      explain({ ...it, reason: `line 7: ${reason}` }).title,
      'Line 7 of the body is not JSON: unexpected character at byte 1.',
    );
    assert.equal(
      explain({ ...it, code: 'body_not_json' }).title,
      'The body is not JSON: unexpected character at byte 1.',
    );
    assert.match(
      explain(it)
        .todo.map(({ why }) => why)
        .join(' '),
      /A retry cannot help/,
    );
    assert.doesNotMatch(JSON.stringify(explain(it)), /passed the check|Change the column/);
    assert.equal(briefOf(it), 'The body is not JSON');
    const noObject = { ...it, reason: 'failed to decode webhook JSON payload: it is not a JSON object' };
    assert.match(explain(noObject).title, /JSON, but not an object/);
    assert.equal(briefOf(noObject), 'The body is no JSON object');
  });

  test("the console's explanation of a refusal words ages for people", () => {
    assert.deepEqual([5, 119, 120, 300, 423, 7_200, 90_000, 400_000].map(spanText), [
      '5 s',
      '119 s',
      '2 minutes',
      '5 minutes',
      '7 min 3 s',
      '2 h 0 min',
      '25 h 0 min',
      '5 days',
    ]);
  });

  for (const sender of senders.values())
    test(`the console explains stale, tampered, unsigned and wrongly signed requests of ${sender.id}`, () => {
      const keys = sender.makeSecret(randomFrom('one'));
      const others = sender.makeSecret(randomFrom('two'));
      const wrong = said(sender, keys.secret, requestOf(sender, others));
      assert(
        ['signature', 'key', 'token', 'prefix'].includes(wrong.cause.kind),
        `${wrong.cause.kind}: ${wrong.reason}`,
      );
      if (sender.signsBody) {
        const changed = said(sender, keys.secret, tampered(requestOf(sender, keys)));
        assert.notEqual(changed.cause.kind, 'clock', changed.reason);
      }
      if (sender.signatureHeader !== null) {
        const { [sender.signatureHeader]: _, ...headers } = requestOf(sender, keys).headers;
        const bare = said(sender, keys.secret, { ...requestOf(sender, keys), headers });
        assert.equal(bare.cause.kind, 'missing', `${bare.cause.kind}: ${bare.reason}`);
        assert.match(bare.title, /is missing\.$/);
      }
      if (sender.toleranceS === null) return;
      const stale = said(
        sender,
        keys.secret,
        requestOf(sender, keys, nowMs - (sender.toleranceS + 100) * 1_000),
      );
      // A token says no more than that it does not verify.
      if (stale.cause.kind === 'token') return assert.match(stale.title, /or it has expired/);
      assert.equal(stale.cause.kind, 'clock', stale.reason);
      assert.equal(stale.cause.limitS, sender.toleranceS, stale.reason);
      // The same from the other side, with the opposite advice.
      const early = said(
        sender,
        keys.secret,
        requestOf(sender, keys, nowMs + (sender.toleranceS + 100) * 1_000),
      );
      assert.equal(early.cause.kind, stale.cause.ageS === undefined ? 'clock' : 'ahead', early.reason);
      if (early.cause.kind === 'ahead')
        assert.doesNotMatch(hintOfRefusal('signature_failed', early.reason), /a replay/);
      // Inside a token the time is shown to nobody.
      if (stale.cause.ageS === undefined)
        return assert.match(stale.title, /further from this machine’s clock/);
      // The age and the limit are those of the sender's table and of this test, to the second.
      assert(Math.abs((stale.cause.ageS ?? 0) - sender.toleranceS - 100) <= 1, JSON.stringify(stale.cause));
      assert(stale.title.includes(`${sender.name}’s limit is ${spanText(sender.toleranceS)}.`), stale.title);
      if (sender.signsBody && stale.cause.signature === 'not looked at')
        assert.match(stale.says, /was not looked at/);
    });
});
