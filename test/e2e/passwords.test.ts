/** Passwords on the SQL door of the embedded engine: psql, node-postgres, psycopg, and strangers. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Client } from 'pg';
import { makeAuthority } from '../support/certificates.ts';
import { onEnd } from '../support/cleanup.ts';
import { sharedHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const password = 'correct horse, "battery" \\ staple$=';

const shared = sharedHeadgate({
  // Beyond loopback: with a password the door may.
  args: ['--sql-host=0.0.0.0'],
  env: { HEADGATE_SQL_PASSWORD: password },
});

async function login(headgate: Headgate, user: string, secret: string | null): Promise<string> {
  const { port } = headgate.ports.sql;
  const config = {
    host: '127.0.0.1',
    port,
    user,
    database: 'dev',
    ...(secret === null ? {} : { password: secret }),
  };
  const client = new Client(config);
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ name: string }>('select current_user as name');
    return rows[0]?.name ?? '';
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    return `${code ?? ''} ${message}`;
  } finally {
    await client.end();
  }
}

async function superuser(t: TestContext, headgate: Headgate): Promise<Client> {
  const client = new Client({
    host: '127.0.0.1',
    port: headgate.ports.sql.port,
    user: 'root',
    database: 'dev',
    password,
  });
  client.on('error', () => {});
  await client.connect();
  t.after(() => client.end().catch(() => {}));
  return client;
}

test("the SQL port checks root's password by HEADGATE_SQL_PASSWORD and those of other roles by PostgreSQL", async (t) => {
  const headgate = await shared();
  const root = await superuser(t, headgate);
  await root.query(`
    create role reader login password 'réader 2';
    create role stranger login;
    create role old login password 'old' valid until '2001-01-01';
    create role group_role password 'group';
    set password_encryption = 'md5';
    create role md login password 'md';
    reset password_encryption`);
  const refused = (user: string) => `28P01 password authentication failed for user "${user}"`;
  assert.equal(await login(headgate, 'root', password), 'root');
  assert.equal(await login(headgate, 'reader', 'réader 2'), 'reader');
  for (const [user, tried] of [
    ['root', 'wrong'],
    ['root', ''],
    ['reader', password],
    ['nobody_of_that_name', password],
    ['stranger', ''],
    ['stranger', 'x'],
    ['old', 'old'],
    ['md', 'md'],
    ["x' or 1=1 --", 'x'],
  ] as const) {
    // node-postgres itself refuses to send an empty password.
    const said = await login(headgate, user, tried);
    assert.equal(said, tried === '' ? said : refused(user));
    assert.notEqual(said, user);
  }
  // The right password of a role that may not log in: the engine's own words.
  assert.match(
    await login(headgate, 'group_role', 'group'),
    /^28000 role "group_role" is not permitted to log in$/,
  );

  // A change counts at once, and the setting outweighs what the engine keeps of root.
  await root.query(`alter role reader password 'new'; alter role root password 'other'`);
  assert.equal(await login(headgate, 'reader', 'new'), 'reader');
  assert.equal(await login(headgate, 'reader', 'réader 2'), refused('reader'));
  assert.equal(await login(headgate, 'root', 'other'), refused('root'));
  assert.equal(await login(headgate, 'root', password), 'root');

  assert.ok(headgate.stderr.includes('"kind":"sql.login_failed"'));
  for (const secret of [password, JSON.stringify(password).slice(1, -1), 'réader 2']) {
    assert.ok(!headgate.stderr.includes(secret) && !headgate.stdout.includes(secret));
  }
});

test('headgate tail ends when the restarted server asks for a password that it does not have', async (t) => {
  const dataDir = join(await temporaryFolder(t), 'data');
  const open = await startHeadgate(t, { dataDir });
  const { sql } = open.ports;
  const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
  const tail = spawn(process.execPath, [cli, 'tail', '--dsn', `postgresql://root@127.0.0.1:${sql.port}/dev`]);
  onEnd(t, 'tail', () => void tail.kill('SIGKILL'));
  const ended = once(tail, 'close');
  let said = '';
  tail.stderr.on('data', (text: Buffer) => (said += text.toString()));
  const begun = `SELECT FROM pg_stat_activity WHERE application_name = 'headgate tail'`;
  const root = await open.client(t);
  await until(async () => (await root.query(begun)).rowCount === 1 && said !== '');
  await open.signal('SIGTERM');
  await startHeadgate(t, { dataDir, args: open.samePorts, env: { HEADGATE_SQL_PASSWORD: password } });
  assert.deepEqual(await ended, [1, null]);
  assert.match(
    said,
    /\nheadgate: the database cannot be reached: .*the server asks for the password of "root", and the connection string has none\n$/,
  );
});

test('psql and psycopg log in to the SQL port by SCRAM, also over TLS, but without channel binding', async (t) => {
  if (requireTool(t, 'psql') === null || requireTool(t, 'openssl') === null) return;
  const folder = await temporaryFolder(t);
  const authority = makeAuthority(folder);
  const { cert, key } = authority.issue('server', 'server');
  const file = join(folder, 'password');
  writeFileSync(file, `${password}\nnot this\n`);
  const headgate = await startHeadgate(t, {
    env: { HEADGATE_SQL_PASSWORD_FILE: file, HEADGATE_SQL_TLS_CERT: cert, HEADGATE_SQL_TLS_KEY: key },
  });
  const target = `host=localhost hostaddr=127.0.0.1 port=${headgate.ports.sql.port} user=root dbname=dev sslrootcert=${authority.cert}`;
  const psql = (more: string, secret = password) =>
    run('psql', ['-XAtqw', `${target} ${more}`, '-c', 'select 1'], {
      env: { PATH: process.env['PATH'], PGPASSWORD: secret },
    });
  assert.deepEqual(await psql('sslmode=verify-full'), { code: 0, stdout: '1\n', stderr: '' });
  assert.match(
    (await psql('sslmode=verify-full', 'wrong')).stderr,
    /password authentication failed for user "root"/,
  );
  assert.match((await psql('sslmode=disable')).stderr, /this door takes encrypted connections only/);
  assert.match((await psql('sslmode=verify-full channel_binding=require')).stderr, /channel binding/i);

  // Where Debian puts it; another python3 may come first in PATH.
  const python = '/usr/bin/python3';
  const script = `import os, psycopg
with psycopg.connect("${target} sslmode=verify-full", password=os.environ["PGPASSWORD"]) as c:
    print(c.execute("select current_user").fetchone()[0])`;
  const ran = await run(python, ['-c', script], {
    env: { PATH: '/usr/bin:/bin', PGPASSWORD: password },
  });
  if (/No module named/.test(ran.stderr)) t.diagnostic('SKIPPED: psycopg is not installed');
  else assert.deepEqual(ran, { code: 0, stdout: 'root\n', stderr: '' });

  // A statement is cancelled over the clear, as psql before 17 does it.
  const client = new Client({
    host: '127.0.0.1',
    port: headgate.ports.sql.port,
    user: 'root',
    database: 'dev',
    password,
    ssl: { rejectUnauthorized: false },
  });
  await client.connect();
  const { processID, secretKey } = client as unknown as { processID: number; secretKey: number };
  const slept = assert.rejects(client.query('select pg_sleep(60)'), { code: '57014' });
  const cancel = Buffer.alloc(16);
  [16, 80_877_102, processID, secretKey].forEach((value, i) => cancel.writeInt32BE(value, i * 4));
  const socket = connect({ port: headgate.ports.sql.port, host: '127.0.0.1' });
  socket.on('error', () => {});
  socket.resume();
  // Before the statement runs a cancellation has nothing to cancel.
  const observer = await run('psql', ['-XAtqw', `${target} sslmode=require`, '-c', waitForSleep], {
    env: { PATH: process.env['PATH'], PGPASSWORD: password },
  });
  assert.equal(observer.code, 0, observer.stderr);
  socket.end(cancel);
  await slept;
  await client.end();
});

const waitForSleep = `do $$ begin
  loop
    perform pg_stat_clear_snapshot();
    exit when exists (select from pg_stat_activity where wait_event = 'PgSleep' and query = 'select pg_sleep(60)');
    perform pg_sleep(0.01);
  end loop;
end $$`;

test('the SQL port gives unknown roles stable SCRAM challenges, and survives malformed proofs', async () => {
  const headgate = await shared();
  const start = (user: string) => {
    const text = Buffer.from(`user\0${user}\0database\0dev\0\0`);
    const head = Buffer.alloc(8);
    head.writeInt32BE(8 + text.length, 0);
    head.writeInt32BE(3 << 16, 4);
    return Buffer.concat([head, text]);
  };
  const message = (body: string) => {
    const head = Buffer.alloc(5);
    head.write('p');
    head.writeInt32BE(4 + body.length, 1);
    return Buffer.concat([head, Buffer.from(body, 'latin1')]);
  };
  const first = (text: string) => {
    const length = Buffer.alloc(4);
    length.writeInt32BE(text.length, 0);
    return message(`SCRAM-SHA-256\0${length.toString('latin1')}${text}`);
  };
  const ask = async (bytes: Buffer) => {
    const socket = connect({ port: headgate.ports.sql.port, host: '127.0.0.1', allowHalfOpen: true });
    let said = '';
    socket.setEncoding('latin1').on('data', (text: string) => (said += text));
    socket.on('error', () => {});
    socket.end(bytes);
    await once(socket, 'close');
    return said;
  };
  const challenge = async (user: string) => {
    const said = await ask(Buffer.concat([start(user), first('n,,n=,r=mine'), message('')]));
    return /,s=([^,]+),i=(\d+)/.exec(said)?.slice(1);
  };
  const [nobody, again, root] = [
    await challenge('nobody'),
    await challenge('nobody'),
    await challenge('root'),
  ];
  assert.equal(nobody?.[1], '4096');
  assert.deepEqual(nobody, again);
  assert.equal(root?.[1], '4096');
  assert.equal(root?.[0]?.length, nobody?.[0]?.length);

  for (const bytes of [
    message('SCRAM-SHA-256-PLUS\0\0\0\0\0'),
    message('SCRAM-SHA-256\0\0\0\0\x08n,,n=,r=x'),
    message(password),
    first('n,,n=,r='),
    Buffer.from('Q\0\0\0\x0dselect 1\0', 'latin1'),
    Buffer.from('p\x7f\xff\xff\xff', 'latin1'),
    Buffer.concat([first('n,,n=,r=x'), message('c=biws,r=x,p=x')]),
  ]) {
    assert.match(await ask(Buffer.concat([start('root'), bytes])), /SFATAL\0VFATAL\0C08P01\0/);
  }
  assert.equal(await login(headgate, 'root', password), 'root');
});
