/** What is stored of a login's password, and the password, on a real PostgreSQL that asks for it. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Client } from 'pg';
import { onEnd } from '../../test/support/cleanup.ts';
import { startServer } from '../../test/support/server.ts';
import { fixedKeys } from './key-ring.ts';
import { createLoginPasswords } from './login-passwords.ts';

test('PostgreSQL lets a login in with the password whose SCRAM verifier it was given, and with no other', async (t) => {
  const server = await startServer();
  onEnd(t, 'server', () => server.close());
  const [first, second] = [1, 2].map((n) => createLoginPasswords(fixedKeys(Buffer.alloc(32, n))));
  assert(first !== undefined && second !== undefined);
  const root = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
  await root.connect();
  onEnd(t, 'root', () => root.end());
  const login = 'headgate_as_1';
  assert.equal(first.verifier(login), first.verifier(login));
  await root.query(`CREATE ROLE ${login} LOGIN PASSWORD '${first.verifier(login)}'`);
  const { rows } = await root.query('SELECT rolpassword AS stored FROM pg_authid WHERE rolname = $1', [
    login,
  ]);
  assert.deepEqual(rows, [{ stored: first.verifier(login) }]);
  const hba = join(server.data, 'pg_hba.conf');
  await writeFile(hba, `local all ${login} scram-sha-256\n${await readFile(hba, 'utf8')}`);
  await root.query('SELECT pg_reload_conf()');
  const enters = async (password: string): Promise<string> => {
    const client = new Client({ host: server.socketDir, user: login, database: 'postgres', password });
    try {
      await client.connect();
      const { rows: who } = await client.query<{ who: string }>('SELECT current_user AS who');
      return who[0]?.who ?? '';
    } catch (error) {
      return (error as { code?: string }).code ?? String(error);
    } finally {
      await client.end();
    }
  };
  for (;;) if ((await enters('wrong')) === '28P01') break;
  assert.equal(await enters(first.password(login)), login);
  assert.equal(await enters(first.password('headgate_as_2')), '28P01');
  assert.equal(await enters(second.password(login)), '28P01');
});
