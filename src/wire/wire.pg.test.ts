/** The SQL door in front of a real PostgreSQL, with real clients: node-postgres and postgres.js. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { EventEmitter } from 'node:events';
import { connect } from 'node:net';
import { after, before, test } from 'node:test';
import { Client, type ClientConfig, type DatabaseError, type Notification } from 'pg';
import postgres from 'postgres';
import { openFragmentingProxy } from '../../test/support/fragmenting-proxy.ts';
import { fooProcedure, openTestDoor, type TestDoor } from '../../test/support/wire-door.ts';
import { startServer, type TestServer } from '../../test/support/server.ts';

let server: TestServer;
let door: TestDoor;

before(async () => {
  server = await startServer(undefined, ['max_connections=60', 'wal_level=logical']);
  door = await openTestDoor({ kind: 'unix', path: server.socket });
  await withClient(door.port, (client) => client.query(fooProcedure));
});
after(async () => {
  await door.door.close();
  await server.close();
});

async function withClient<T>(port: number, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client({ host: '127.0.0.1', port, user: 'root', database: 'postgres' });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

const failure = (query: Promise<unknown>): Promise<DatabaseError> =>
  query.then(
    () => assert.fail('the query succeeded'),
    (error: unknown) => error as DatabaseError,
  );

test('node-postgres through the SQL port gets its own command tags and errors in simple, extended and named queries', async () => {
  await withClient(door.port, async (client) => {
    assert.equal((await client.query('FOO np1')).command, 'CREATE_FOO'.split('_')[0]);
    assert.equal((await client.query('FOO PROC np2', [])).command, 'CREATE');
    const named = { name: 'n', text: 'FOO np3', values: [] };
    assert.equal((await client.query(named)).command, 'CREATE');
    assert.equal((await failure(client.query(named))).code, '42P07');
    const rows = await client.query('select $1::text as a, count(*)::int as n from np3', ['x']);
    assert.deepEqual(rows.rows, [{ a: 'x', n: 0 }]);

    const refused = await failure(client.query("select 'é'; BAD word"));
    assert.deepEqual([refused.message, refused.position, refused.hint], ['no "word"', '17', 'a hint']);
    const prepared = await failure(client.query('BAD word', []));
    assert.deepEqual([prepared.message, prepared.position], ['no "word"', '5']);
    const inner = await failure(client.query("select 'é';FOO PROC é.q"));
    assert.deepEqual([inner.code, inner.position, inner.where], ['3F000', '21', undefined]);
    const later = await failure(client.query('FOO np4; select nothing'));
    assert.deepEqual([later.code, later.position], ['42703', '17']);
    const bug = await failure(client.query('BUG x'));
    assert.deepEqual([bug.code, bug.message], ['XX000', 'internal error']);
    assert.ok(door.seen.some((o) => o.kind === 'sql.failed'));

    await client.query('begin');
    assert.equal((await failure(client.query('BAD word'))).message, 'no "word"');
    assert.equal((await failure(client.query('select 1'))).code, '25P02');
    assert.equal((await client.query('rollback')).command, 'ROLLBACK');
  });
});

test("a SQL port session waits for a statement's preparation, keeps the order of messages, and reports its failure", async () => {
  await withClient(door.port, async (client) => {
    const order: string[] = [];
    const first = client.query('WAIT w1').then((r) => order.push(r.command));
    const second = client.query('select 1').then((r) => order.push(r.command));
    (await door.waiting('w1')).resolve();
    await Promise.all([first, second]);
    assert.deepEqual(order, ['CREATE', 'SELECT']);
    const refused = await failure(client.query('WAIT refused'));
    assert.deepEqual([refused.code, refused.message, refused.detail], ['0A000', 'not today', 'because']);
    assert.equal((await client.query('select 1')).command, 'SELECT');
  });
});

test('the SQL port relays notices, NOTIFY, large rows and large statements', async () => {
  await withClient(door.port, async (client) => {
    const notices: string[] = [];
    client.on('notice', (notice) => notices.push(notice.message ?? ''));
    await client.query("do $$ begin raise notice 'hello'; end $$");
    assert.deepEqual(notices, ['hello']);
    const told = once(client, 'notification');
    await client.query('listen news');
    await withClient(door.port, (other) => other.query("notify news, 'x'"));
    assert.equal(((await told)[0] as Notification).payload, 'x');
    const large = await client.query<{ a: string }>("select repeat('x', 30000000) as a");
    assert.equal(large.rows[0]!.a.length, 30_000_000);
    const text = 'y'.repeat(17 * 1024 * 1024);
    const echoed = await client.query<{ n: number }>(`select length('${text}') as n`);
    assert.equal(echoed.rows[0]!.n, text.length);
    const bound = await client.query<{ n: number }>('select length($1) as n', [text]);
    assert.equal(bound.rows[0]!.n, text.length);
  });
});

/** Hundreds of pipelined queries, some rewritten, some refused, some failing in the engine. */
async function pipelined(port: number, prefix: string, count: number): Promise<void> {
  const sql = postgres({
    host: '127.0.0.1',
    port,
    user: 'root',
    database: 'postgres',
    max: 2,
    onnotice: () => {},
  });
  try {
    const results = await Promise.all(
      Array.from({ length: count }, async (_, n) => {
        switch (n % 6) {
          case 1:
            return (await sql.unsafe(`FOO ${prefix}${n}`)).command;
          case 2:
            return sql.unsafe(`BAD word${n}`).catch((e: Error) => e.message);
          case 3:
            return sql`select ${n}::int / 0`.catch((e: postgres.PostgresError) => e.code);
          case 4:
            return (await sql.unsafe(`FOO PROC ${prefix}${n}`, [], { prepare: true })).command;
          case 5:
            return sql.unsafe(`BAD ext${n}`, [], { prepare: true }).catch((e: Error) => e.message);
          default:
            return (await sql`select ${n}::int as n`)[0]!['n'] as number;
        }
      }),
    );
    results.forEach((result, n) => {
      const expected = [n, 'CREATE_FOO', `no "word${n}"`, '22012', 'CREATE_FOO', `no "ext${n}"`][n % 6];
      assert.equal(result, expected, `query ${n}`);
    });
  } finally {
    await sql.end();
  }
}

test('postgres.js pipelines hundreds of queries with failures and rewrites through the SQL port', () =>
  pipelined(door.port, 'pjs', 600));

test('the SQL port relays chunks of one to three bytes on either side', async () => {
  let state = 1;
  const random = (): number => {
    state = (state * 48_271) % 2_147_483_647;
    return state / 2_147_483_647;
  };
  const behind = await openFragmentingProxy({ path: server.socket }, random);
  const slow = await openTestDoor({ kind: 'tcp', host: '127.0.0.1', port: behind.port, tls: false });
  const inFront = await openFragmentingProxy({ host: '127.0.0.1', port: slow.port }, random);
  await pipelined(inFront.port, 'frag', 120);
  await inFront.close();
  await slow.door.close();
  await behind.close();
});

test('a client that disconnects from the SQL port ends its engine connection and frees its slot', async () => {
  const small = await openTestDoor(
    { kind: 'unix', path: server.socket },
    { limits: { sqlConnectionsMax: 2, sqlReservedMax: 0 } },
  );
  const open = async (): Promise<Client> => {
    const client = new Client({ host: '127.0.0.1', port: small.port, user: 'root', database: 'postgres' });
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const [first, second] = [await open(), await open()];
  assert.equal((await failure(open())).code, '53300');
  const pid = (await first.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!.pid;
  const closed = small.next((o) => o.kind === 'sql.closed' && o.session === 1);
  (
    first as unknown as { connection: { stream: { resetAndDestroy(): void } } }
  ).connection.stream.resetAndDestroy();
  await closed;
  for (;;) {
    const left = await second.query('select from pg_stat_activity where pid = $1', [pid]);
    if (left.rowCount === 0) break;
  }
  const third = await open();
  assert.equal((await third.query('select 1')).rowCount, 1);
  await second.end();
  await third.end();
  await small.door.close();
});

test('a SQL port client gets FATAL with the reason if the engine is away, goes away or ends the connection', async () => {
  const unavailable = await openTestDoor(
    { kind: 'unix', path: server.socket },
    { unavailable: () => 'the engine is starting' },
  );
  const early = await failure(withClient(unavailable.port, () => Promise.resolve()));
  assert.deepEqual([early.code, early.message], ['57P03', 'the engine is starting']);
  await unavailable.door.close();
  const nowhere = await openTestDoor({ kind: 'unix', path: `${server.socket}.not` });
  assert.equal((await failure(withClient(nowhere.port, () => Promise.resolve()))).code, '57P03');
  await nowhere.door.close();

  const client = new Client({ host: '127.0.0.1', port: door.port, user: 'root', database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  const ended = once(client, 'error');
  const pid = (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!.pid;
  await withClient(door.port, (other) => other.query('select pg_terminate_backend($1)', [pid]));
  assert.equal(((await ended)[0] as DatabaseError).code, '57P01');

  // A connection that ends without a word: the relay says it in the engine's place.
  const proxy = await openFragmentingProxy({ path: server.socket }, () => 0);
  const lossy = await openTestDoor({ kind: 'tcp', host: '127.0.0.1', port: proxy.port, tls: false });
  const cut = new Client({ host: '127.0.0.1', port: lossy.port, user: 'root', database: 'postgres' });
  cut.on('error', () => {});
  await cut.connect();
  const lost = once(cut, 'error');
  await proxy.close();
  assert.equal(((await lost)[0] as DatabaseError).code, '08006');
  await lossy.door.close();
});

test('a draining SQL port ends idle clients, lets a transaction finish, and refuses new clients', async () => {
  const draining = await openTestDoor({ kind: 'unix', path: server.socket });
  const open = async (): Promise<Client> => {
    const client = new Client({ host: '127.0.0.1', port: draining.port, user: 'root', database: 'postgres' });
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const [idle, busy] = [await open(), await open()];
  const [idleEnds, busyEnds] = [once(idle, 'error'), once(busy, 'error')];
  await busy.query('begin');
  const drained = draining.door.drain();
  assert.equal(((await idleEnds)[0] as DatabaseError).code, '57P01');
  assert.equal((await busy.query('FOO drained')).command, 'CREATE');
  assert.equal((await busy.query('commit')).command, 'COMMIT');
  assert.equal(((await busyEnds)[0] as DatabaseError).code, '57P01');
  await drained;
  assert.equal(((await failure(open())) as unknown as NodeJS.ErrnoException).code, 'ECONNREFUSED');
  await withClient(door.port, (client) => client.query('select from drained'));
});

test('a draining SQL port ends a replication client at once, which resumes at its position later', async () => {
  const draining = await openTestDoor({ kind: 'unix', path: server.socket });
  const subscriber = new Client({
    host: '127.0.0.1',
    port: draining.port,
    user: 'root',
    database: 'postgres',
    replication: 'true',
  } as ClientConfig);
  subscriber.on('error', () => {});
  await subscriber.connect();
  const { rows } = await subscriber.query<{ xlogpos: string }>('IDENTIFY_SYSTEM');
  const { connection } = subscriber as unknown as {
    readonly connection: EventEmitter & { query(sql: string): void };
  };
  const follows = once(connection, 'replicationStart');
  connection.query(`START_REPLICATION PHYSICAL ${rows[0]?.xlogpos}`);
  await follows;
  const told = once(connection, 'errorMessage');
  await draining.door.drain();
  assert.equal(((await told)[0] as DatabaseError).code, '57P01');
});

test('closing the SQL port ends a client with a running statement at once', async () => {
  const closing = await openTestDoor({ kind: 'unix', path: server.socket });
  const client = new Client({ host: '127.0.0.1', port: closing.port, user: 'root', database: 'postgres' });
  client.on('error', () => {});
  await client.connect();
  const running = failure(client.query('select pg_sleep(600)'));
  await closing.door.close();
  assert.equal((await running).code, '57P01');
  await withClient(door.port, (other) =>
    other.query("select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(600)'"),
  );
});

test('the SQL port declines encryption without a certificate, drops malformed openings and ends slow ones', async () => {
  const quick = await openTestDoor(
    { kind: 'unix', path: server.socket },
    { limits: { sqlStartupTimeoutMs: 100 } },
  );
  const talk = async (bytes: Buffer): Promise<string> => {
    const socket = connect({ host: '127.0.0.1', port: quick.port });
    let answer = '';
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')));
    socket.on('error', () => {});
    socket.write(bytes);
    await once(socket, 'close');
    return answer;
  };
  const ssl = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
  const gss = Buffer.from([0, 0, 0, 8, 4, 210, 22, 48]);
  assert.equal(await talk(ssl), 'N');
  assert.equal(await talk(Buffer.concat([gss, ssl])), 'NN');
  assert.equal(await talk(Buffer.concat([ssl, ssl, ssl, ssl])), 'NN');
  assert.equal(await talk(Buffer.from('GET / HTTP/1.1\r\n\r\n')), '');
  assert.equal(await talk(Buffer.from([0, 0, 0, 4])), '');
  assert.match(await talk(Buffer.from([0, 0, 0, 9, 0, 2, 0, 0, 0])), /C0A000/);
  await quick.door.close();
});

const startup = Buffer.from('\0\0\0\x25\0\x03\0\0user\0root\0database\0postgres\0\0', 'latin1');
const replicating = Buffer.from(
  '\0\0\0\x3a\0\x03\0\0user\0root\0database\0postgres\0replication\0database\0\0',
  'latin1',
);
const message = (type: string, body = ''): Buffer => {
  const out = Buffer.from(`${type}\0\0\0\0${body}`, 'latin1');
  out.writeInt32BE(out.length - 1, 1);
  return out;
};

test('a client that sends its start-up and queries in one packet and half-closes still gets its answer', async () => {
  const socket = connect({ host: '127.0.0.1', port: door.port, allowHalfOpen: true });
  socket.end(Buffer.concat([startup, message('Q', 'FOO onepacket\0'), message('Q', 'select 42\0')]));
  let answer = '';
  for await (const chunk of socket) answer += (chunk as Buffer).toString('latin1');
  assert.match(answer, /CREATE_FOO.*42.*SELECT 1/s);
});

test('the SQL port accepts more pipelined messages than its bound on outstanding replies', async () => {
  const count = 200_000;
  const socket = connect({ host: '127.0.0.1', port: door.port });
  socket.write(startup);
  socket.write(Buffer.concat(Array.from({ length: count }, () => message('S'))));
  socket.write(message('X'));
  let bytes = 0;
  for await (const chunk of socket) bytes += (chunk as Buffer).length;
  assert.ok(bytes > count * 6 && bytes < count * 6 + 2_000, `${bytes} bytes`);
});

test('a SQL port that requires TLS to the engine refuses sessions if the engine offers none', async () => {
  const proxy = await openFragmentingProxy({ path: server.socket }, () => 0);
  const secure = await openTestDoor({ kind: 'tcp', host: '127.0.0.1', port: proxy.port, tls: true });
  const refused = await failure(withClient(secure.port, () => Promise.resolve()));
  assert.deepEqual([refused.code, /does not offer TLS/.test(refused.message)], ['57P03', true]);
  await secure.door.close();
  await proxy.close();
});

test('a slow reader of a huge result on the SQL port keeps memory flat', async () => {
  const socket = connect({ host: '127.0.0.1', port: door.port });
  socket.write(startup);
  await once(socket, 'data');
  socket.write(message('Q', "select repeat('x', 1000000) from generate_series(1, 2000)\0"));
  await once(socket, 'data');
  socket.pause();
  // The engine is stopped by the full sockets once it waits for its client.
  await withClient(door.port, async (client) => {
    for (;;) {
      const waiting = await client.query(
        "select from pg_stat_activity where wait_event = 'ClientWrite' and query like '%generate_series(1, 2000)%'",
      );
      if (waiting.rowCount === 1) break;
    }
  });
  const before = process.memoryUsage().arrayBuffers;
  assert.ok(before < 64 * 1024 * 1024, `${before} bytes are held`);
  const gone = door.next((o) => o.kind === 'sql.closed' && door.seen.at(-1) === o);
  socket.destroy();
  await gone;
});

test('a replication client that does not read is ended, and its slot is dropped', async () => {
  const impatient = await openTestDoor(
    { kind: 'unix', path: server.socket },
    { limits: { sqlFollowerUnreadMs: 200 } },
  );
  const socket = connect({ host: '127.0.0.1', port: impatient.port });
  socket.on('error', () => undefined);
  socket.write(replicating);
  await once(socket, 'data');
  socket.write(message('Q', 'CREATE_REPLICATION_SLOT unread TEMPORARY LOGICAL pgoutput\0'));
  while (!String((await once(socket, 'data'))[0]).includes('CREATE_REPLICATION_SLOT'));
  socket.write(message('Q', "select repeat('x', 1000000) from generate_series(1, 2001)\0"));
  const ended = impatient.next((o) => o.kind === 'sql.closed');
  await once(socket, 'data');
  socket.pause();
  assert.match(JSON.stringify(await ended), /does not read/);
  await withClient(door.port, async (client) => {
    const left = "select from pg_replication_slots where slot_name = 'unread'";
    while ((await client.query(left)).rowCount !== 0);
  });
  socket.destroy();
  await impatient.door.close();
});
