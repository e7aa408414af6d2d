import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { commitsEnded } from './webhook-doors.ts';

test('the commits of a dead listener process are waited for, and sessions of other roles with their name are not', async (t) => {
  const database = await testDatabase(t);
  const admin = await database.connect();
  await admin.query("create role impostor login password 'its own'");
  onEnd(t, 'impostor', async () => void (await admin.query('drop role impostor')));
  const opens = async (name: string, as: ClientConfig = {}) => {
    const client = new Client({ ...database.clientConfig, ...as, application_name: name });
    client.on('error', () => undefined);
    onEnd(t, 'client', () => client.end());
    await client.connect();
    return client;
  };
  const signal = new AbortController().signal;
  /** How many sessions were queried for, until they were gone. */
  const waitsFor = async (name: string, meanwhile: (attempt: number) => void): Promise<number> => {
    let attempts = 0;
    const engine = {
      defaultDatabase: database.name,
      clientConfig: () => {
        meanwhile((attempts += 1));
        return database.clientConfig;
      },
    };
    await commitsEnded(name, { engine, clock: () => performance.now(), random: () => 0, signal });
    return attempts;
  };
  await opens('headgate commit of others', { user: 'impostor', password: 'its own' });
  assert.equal(await waitsFor('headgate commit of others', () => undefined), 1);
  const own = await opens('headgate commit of its own');
  const attempts = await waitsFor('headgate commit of its own', (attempt) => {
    if (attempt === 3) void own.end();
  });
  assert.ok(attempts >= 3, String(attempts));
});
