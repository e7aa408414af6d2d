/** TLS at the SQL door, byte by byte: how it begins, how it must not begin, and that sessions are the same inside it. */
import assert from 'node:assert/strict';
import { once, type EventEmitter } from 'node:events';
import { connect, type Socket } from 'node:net';
import { after, before, test, type TestContext } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { Client, type ClientConfig } from 'pg';
import { testTls } from '../../test/support/certificates.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { openFragmentingProxy } from '../../test/support/fragmenting-proxy.ts';
import { seededRandom } from '../../test/support/random.ts';
import { startServer, type TestServer } from '../../test/support/server.ts';
import { requireTool } from '../../test/support/tools.ts';
import { fooProcedure, openTestDoor, type TestDoor } from '../../test/support/wire-door.ts';

let server: TestServer;
let tls: Awaited<ReturnType<typeof testTls>>;
let door: TestDoor;
before(async () => {
  [server, tls] = await Promise.all([startServer(), testTls()]);
  door = await openTestDoor({ kind: 'unix', path: server.socket }, tls === null ? {} : { tls: tls.source });
});
after(async () => {
  await door.door.close();
  await server.close();
  await tls?.close();
});

async function client(t: TestContext, more: ClientConfig = {}): Promise<Client> {
  const made = new Client({
    host: '127.0.0.1',
    port: door.port,
    user: 'root',
    database: 'postgres',
    ssl: { ca: tls?.ca ?? '' },
    ...more,
  });
  made.on('error', () => {});
  await made.connect();
  onEnd(t, 'client', () => made.end());
  return made;
}

async function socket(t: TestContext): Promise<Socket> {
  const made = connect({ port: door.port, host: '127.0.0.1', noDelay: true });
  onEnd(t, 'socket', () => void made.destroy());
  made.on('error', () => {});
  await once(made, 'connect');
  return made;
}

/** Like `once`, which an error on the way would fail. */
function ended(emitter: EventEmitter, event: string): Promise<void> {
  return new Promise((resolve) => void emitter.once(event, () => resolve()));
}

const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
const gssRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 48]);
const startup = Buffer.concat([
  Buffer.from([0, 0, 0, 19, 0, 3, 0, 0]),
  Buffer.from('user\0root\0\0', 'latin1'),
]);

test('a session over TLS on the SQL port runs statements, large results, errors and cancellation', async (t) => {
  if (requireTool(t, 'openssl') === null) return;
  const one = await client(t);
  await one.query(fooProcedure);
  await one.query('FOO PROC over_tls');
  const big = 'é'.repeat(1_000_000);
  const { rows } = await one.query<{ same: boolean }>(`select $1::text = repeat('é', 1000000) as same`, [
    big,
  ]);
  assert.equal(rows[0]?.same, true);
  await assert.rejects(one.query('BAD thing'), { code: '42601', position: '5' });
  const { rows: many } = await one.query('select repeat(n::text, 100) from generate_series(1, 20000) n');
  assert.equal(many.length, 20_000);
});

test('direct TLS negotiation on the SQL port requires the ALPN protocol of PostgreSQL', async (t) => {
  if (requireTool(t, 'openssl') === null) return;
  const one = await client(t, { sslnegotiation: 'direct' });
  assert.equal((await one.query('select 1 as n')).rows.length, 1);
  const { port } = door;
  const handshake = async (ALPNProtocols?: string[]): Promise<string> => {
    const secure = connectTls({
      port,
      host: '127.0.0.1',
      rejectUnauthorized: false,
      ...(ALPNProtocols === undefined ? {} : { ALPNProtocols }),
    });
    let said = '';
    secure.on('data', (bytes: Buffer) => (said += bytes.toString('latin1')));
    secure.on('error', () => {});
    secure.once('secureConnect', () => secure.write(startup));
    await Promise.race([ended(secure, 'close'), ended(secure, 'data')]);
    secure.destroy();
    return said.slice(0, 1);
  };
  assert.equal(await handshake(['postgresql']), 'R');
  assert.equal(await handshake(), '');
  assert.equal(await handshake(['http/1.1']), '');
});

test('TLS on the SQL port works byte by byte, by both negotiations', async (t) => {
  if (requireTool(t, 'openssl') === null) return;
  const { random } = seededRandom();
  const proxy = await openFragmentingProxy({ port: door.port, host: '127.0.0.1' }, random);
  onEnd(t, 'proxy', () => proxy.close());
  for (const sslnegotiation of ['postgres', 'direct'] as const) {
    const one = await client(t, { port: proxy.port, sslnegotiation });
    await one.query(`FOO pieces_${sslnegotiation}`);
    const { rows } = await one.query<{ text: string }>(`select repeat('x', 3000) as text`);
    assert.equal(rows[0]?.text.length, 3_000);
    await one.query(`drop table pieces_${sslnegotiation}`);
  }
});

test('the SQL port ends a connection with plain bytes behind its request for TLS (CVE-2021-23214)', async (t) => {
  if (requireTool(t, 'openssl') === null) return;
  for (const bytes of [
    Buffer.concat([sslRequest, startup]),
    Buffer.concat([sslRequest, Buffer.from([0x16])]),
  ]) {
    const one = await socket(t);
    let said = '';
    one.on('data', (chunk: Buffer) => (said += chunk.toString('latin1')));
    one.write(bytes);
    await ended(one, 'close');
    assert.equal(said, '');
  }
});

test('the SQL port declines GSSAPI before TLS, and ends TLS within TLS and false handshakes', async (t) => {
  if (requireTool(t, 'openssl') === null) return;
  const one = await socket(t);
  one.write(gssRequest);
  assert.equal(String((await once(one, 'data'))[0]), 'N');
  one.write(sslRequest);
  assert.equal(String((await once(one, 'data'))[0]), 'S');
  const secure = connectTls({ socket: one, rejectUnauthorized: false });
  await once(secure, 'secureConnect');
  secure.on('error', () => {});
  secure.write(sslRequest);
  await ended(secure, 'close');

  const two = await socket(t);
  two.write(sslRequest);
  await once(two, 'data');
  two.resume();
  two.write(startup);
  await ended(two, 'close');

  const three = await socket(t);
  three.write(sslRequest);
  await once(three, 'data');
  three.destroy();
  assert.equal((await (await client(t)).query('select 1 as n')).rows.length, 1);
});

test('the SQL port closes with handshakes and sessions under way', async (t) => {
  if (tls === null) return;
  const other = await openTestDoor({ kind: 'unix', path: server.socket }, { tls: tls.source });
  const all: Promise<void>[] = [];
  const shaking = connect({ port: other.port, host: '127.0.0.1' });
  shaking.on('error', () => {});
  await once(shaking, 'connect');
  shaking.write(sslRequest);
  await once(shaking, 'data');
  shaking.resume();
  all.push(ended(shaking, 'close'));
  const session = await client(t, { port: other.port });
  all.push(ended(session, 'end'));
  await other.door.close();
  await Promise.all(all);
});
