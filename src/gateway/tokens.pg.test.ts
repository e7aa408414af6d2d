/** Requests with a token when the catalog's answer changes while they are in flight; test/e2e/tokens.test.ts tests the catalog. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { openTestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { until } from '../../test/support/until.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { TokenAnswer } from './tokens.ts';

const token = `hgt_${'0'.repeat(64)}`;

test('a token or right that ends while an event body arrives stores nothing of the body', async (t) => {
  const database = await testDatabase(t);
  const none: TokenAnswer = { grant: null, originKnown: false };
  let now = 0;
  let answer = none;
  let asked = 0;
  const gateway = await openTestGateway(t, database, {
    clock: () => now,
    instead: (deps) => ({
      ...deps,
      tokens: async () => {
        asked += 1;
        return answer;
      },
    }),
  });
  await gateway.rows('CREATE TABLE slowly (v text)');
  const [row] = await gateway.rows(`SELECT 'slowly'::regclass::oid::int AS oid`);
  const granted = (...oids: number[]): TokenAnswer => ({
    grant: { id: '1', origins: [], rate: null, relations: new Set(oids) },
    originKnown: false,
  });
  const oid = row?.['oid'] as number;
  const { port } = gateway.door.address;
  const line = '{"v":"x"}\n';
  const ends: readonly (readonly [TokenAnswer, number, number])[] = [
    [none, limits.tokenAgeMs, 401],
    [granted(), limits.tokenAgeMs, 403],
    [granted(oid), limits.tokenAgeMs, 200],
    [none, limits.tokenAgeMs - 1, 200],
  ];
  let stored = 0;
  // As a whole, and in a transaction of its own.
  for (const lines of [10, 200_000]) {
    for (const [then, laterMs, status] of ends) {
      answer = granted(oid);
      const before = asked;
      const socket = connect(port, '127.0.0.1').setEncoding('utf8');
      socket.write(
        `POST /v1/events?name=slowly HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n` +
          `Content-Length: ${line.length * lines}\r\n\r\n${line.repeat(lines - 1)}`,
      );
      await until(() => asked > before);
      answer = then;
      now += laterMs;
      socket.write(line);
      const [head] = (await once(socket, 'data')) as [string];
      socket.destroy();
      assert.match(head, new RegExp(`^HTTP/1\\.1 ${status} `), `${lines} lines, ${laterMs} ms: ${head}`);
      if (status === 200) stored += lines;
    }
  }
  const [count] = await gateway.rows('SELECT count(*)::int AS n FROM slowly');
  assert.equal(count?.['n'], stored);
});

test('unfinished event bodies with valid tokens leave room for the bodies of others', async (t) => {
  const database = await testDatabase(t);
  const asked: string[] = [];
  const gateway = await openTestGateway(t, database, {
    hosts: ['h'],
    instead: (deps) => ({
      ...deps,
      tokens: async () => {
        asked.push('once');
        const grant = { id: '1', origins: [], rate: null, relations: new Set([oid]) };
        return { grant, originKnown: false };
      },
    }),
  });
  await gateway.rows('CREATE TABLE clicks (v text)');
  const [row] = await gateway.rows(`SELECT 'clicks'::regclass::oid::int AS oid`);
  const oid = row?.['oid'] as number;
  const { port } = gateway.door.address;
  const line = `{"v":"${'x'.repeat(1_000)}"}\n`;
  const large = line.repeat(2_000);
  const headers = { authorization: `Bearer ${token}` };
  const open = (begin: string, bytes: number): Socket => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    onEnd(t, 'a sender', () => void socket.destroy());
    socket.write(
      `POST /v1/events?name=clicks HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ${token}\r\nContent-Length: ${bytes}\r\n\r\n${begin}`,
    );
    return socket;
  };
  // More than the half, and all of them wait for the rest.
  const slow = Array.from({ length: limits.eventsStreamsMax }, () => open(large, 2 * large.length));
  let refused = 0;
  for (const socket of slow) socket.once('data', () => (refused += 1));
  // The others have their places. A request before that could take one of these.
  await until(() => refused === slow.length - limits.eventsStreamsOfTokensMax);
  assert.equal((await gateway.events('name=clicks', large, headers)).json.code, 'overloaded');
  const { status, text } = await gateway.events('name=clicks', large);
  assert.deepEqual([status, text], [200, '{"rows":2000}']);
  const after = asked.length;
  for (let i = 0; i < limits.gatewayRequestsMax + 100; i++) open('{', 100);
  await until(() => asked.length >= after + limits.gatewayRequestsOfTokensMax - slow.length);
  await until(async () => {
    const { status, json } = await gateway.events('name=clicks', '{"v":"y"}', headers);
    return status === 503 && json.error === 'too many requests with tokens are in flight';
  });
  // Those that were refused do not send the rest of their bodies either.
  for (let i = 0; i < 20; i++) {
    assert.equal((await gateway.events('name=clicks', '{"v":"y"}')).status, 200);
    assert.equal((await gateway.sql('SELECT 1')).status, 200);
  }
});

test('gateway requests without the right token that leave their bodies unsent keep no other client out', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), { hosts: ['h'], token: 'all' });
  const { port } = gateway.door.address;
  const headers = { authorization: 'Bearer all' };
  const opened = Array.from({ length: limits.gatewayRequestsMax + 100 }, (_, i) => {
    const socket = connect(port, '127.0.0.1');
    socket.on('error', () => undefined);
    onEnd(t, 'a stranger', () => void socket.destroy());
    const given = ['Bearer wrong', `Bearer ${token}`][i % 2];
    socket.write(
      `POST /v1/events?name=t HTTP/1.1\r\nHost: h\r\nAuthorization: ${given}\r\nContent-Length: 100\r\n\r\n{`,
    );
    return once(socket, 'connect');
  });
  await Promise.all(opened);
  for (let i = 0; i < 20; i++)
    assert.equal((await gateway.sql('SELECT 1', '/v1/sql', { headers })).status, 200);
});

test('gateway requests that have ended make room for others', async (t) => {
  const gateway = await openTestGateway(t, await testDatabase(t), {
    limits: { ...limits, gatewayRequestsMax: 2 },
  });
  for (let i = 0; i < 5; i++) assert.equal((await gateway.sql('SELECT 1')).status, 200);
});

test('a token is neither accepted nor refused while the database is away, and a missing token table is reported', async (t) => {
  const database = await testDatabase(t);
  const away = await openTestGateway(t, database, {
    instead: (deps) => ({
      ...deps,
      tokens: async () => {
        throw new Refused('engine_unavailable');
      },
    }),
  });
  const headers = { authorization: `Bearer ${token}` };
  const refused = await away.events('name=t', '{}', headers);
  assert.deepEqual([refused.status, refused.json.code], [503, 'engine_unavailable']);
  const without = await openTestGateway(t, database);
  const { status, json } = await without.events('name=t', '{}', headers);
  assert.deepEqual(
    [status, json.error],
    [401, 'in front of this database there are no tokens of CREATE TOKEN'],
  );
  assert.equal((await without.sql('SELECT 1', '/v1/sql', { headers })).status, 403);
});
