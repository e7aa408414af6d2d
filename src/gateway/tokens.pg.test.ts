/** Requests with a token when the catalog's answer changes while they are in flight; test/e2e/tokens.test.ts tests the catalog. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { openTestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { until } from '../../test/support/until.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import type { TokenAnswer } from './tokens.ts';

const token = `hgt_${'0'.repeat(64)}`;

test('a token, and a right, that ends while a body arrives stores nothing of it', async (t) => {
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
