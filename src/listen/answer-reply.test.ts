import assert from 'node:assert/strict';
import { STATUS_CODES } from 'node:http';
import { test } from 'node:test';
import { limits } from '../config/limits.ts';
import { handshakeReply } from './handshake-reply.ts';
import { ownReply } from './reply.ts';

test("the largest handshake answer stays below 1,024 bytes with Node's headers", () => {
  const body = 'x'.repeat(limits.answerBodyBytesMax);
  const value = 'y'.repeat(limits.answerOwnBytesMax - body.length - 'X-Long'.length - 4);
  const { headers, status } = handshakeReply({
    status: 201,
    type: 'application/json',
    headers: ['X-Long', value],
    body,
  });
  const added = ['Date', new Date(0).toUTCString(), 'Connection', 'keep-alive', 'Keep-Alive', 'timeout=75'];
  const lines = [...headers, ...added];
  const head = lines.reduce((sum, text) => sum + text.length + 2, 0);
  const all = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`.length + head + 2 + body.length;
  assert.ok(all <= 1_024, `${all}`);
});

test("the ANSWER to a committed request is made once, and has this request's rows and echoed headers", () => {
  const answer = {
    status: 200,
    type: null,
    headers: [],
    echoes: [{ name: 'X-Id', header: 'x-id' }],
    body: '',
  };
  const plain = ownReply(1, answer, { rawHeaders: [] });
  assert.equal(ownReply(1, answer, { rawHeaders: [] }), plain);
  assert.deepEqual(plain.headers, ['Content-Length', '0']);
  assert.equal(ownReply(3, answer, { rawHeaders: [] }).rows, 3);
  const echo = (...rawHeaders: string[]) => ownReply(1, answer, { rawHeaders }).headers.slice(2);
  assert.deepEqual(echo('X-ID', 'abc', 'x-other', 'x-id'), ['X-Id', 'abc']);
  for (const value of ['', ' a', '\u00e9', 'a\tb', 'z'.repeat(257)])
    assert.deepEqual(echo('x-id', value), []);
  assert.deepEqual(echo('x-id', 'a', 'X-Id', 'b'), []);
  assert.deepEqual(ownReply(1, { ...answer, status: 204 }, { rawHeaders: [] }).headers, []);
});
