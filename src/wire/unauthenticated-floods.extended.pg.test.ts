/** Strangers who occupy openings of the SQL door, in every state before a session: others still get in. */
import assert from 'node:assert/strict';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { testTls } from '../../test/support/certificates.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { holdSockets } from '../../test/support/held-sockets.ts';
import { limits } from '../config/limits.ts';
import { startServer } from '../../test/support/server.ts';
import type { TestServer } from '../../test/support/server.ts';
import { within } from '../../test/support/within.ts';
import { openTestDoor } from '../../test/support/wire-door.ts';
import type { TestDoor } from '../../test/support/wire-door.ts';
import { makeVerifier } from './scram.ts';

const sslRequest = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);
/** A TLS record that announces 512 bytes of ClientHello, of which one comes. */
const halfHello = Buffer.from([0x16, 3, 1, 2, 0, 1]);
const startup = Buffer.from('\0\0\0\x29\0\x03\0\0user\0stranger\0database\0postgres\0\0', 'latin1');
const crowded = /C53300\0Mtoo many connections wait to be authenticated/;
/**
 * A door with few openings, and more strangers than that. They live in this process, too: as many as have no place come again in each turn of its event
 * loop or two, and a client must take its next step before as many as there are places have come.
 */
const few = { sqlOpeningsMax: 40 };
const fewSockets = 48;
const addresses = ['127.0.0.2', '127.0.0.3', '127.0.0.4', '127.0.0.5'];

const states: readonly [name: string, talk: (socket: Socket) => void][] = [
  ['say nothing', () => undefined],
  ['stop after the SSLRequest', (socket) => socket.write(sslRequest)],
  [
    'stop in the middle of a ClientHello',
    (socket) => socket.write(sslRequest, () => socket.once('data', () => socket.write(halfHello))),
  ],
  ['stop in the middle of a direct ClientHello', (socket) => socket.write(halfHello)],
  ['stop in the middle of a start-up packet', (socket) => socket.write(startup.subarray(0, 20))],
  [
    'stop when TLS has begun',
    (socket) => {
      socket.write(sslRequest);
      socket.once('data', () =>
        connectTls({ socket, rejectUnauthorized: false })
          .on('error', () => undefined)
          .resume(),
      );
    },
  ],
];

let server: TestServer;
let tls: Awaited<ReturnType<typeof testTls>>;
let folder: string;
before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'headgate-hba-'));
  chmodSync(folder, 0o755);
  const hba = join(folder, 'pg_hba.conf');
  writeFileSync(
    hba,
    'local all stranger scram-sha-256\nlocal all honest scram-sha-256\nlocal all all trust\n',
    { mode: 0o644 },
  );
  [server, tls] = await Promise.all([startServer(undefined, [`hba_file=${hba}`]), testTls()]);
  const root = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
  await root.connect();
  await root.query("create role honest login password 'secret'; create role other login");
  await root.end();
});
after(async () => {
  await server.close();
  await tls?.close();
  rmSync(folder, { recursive: true });
});

async function comesIn(door: TestDoor, more: ClientConfig = {}): Promise<Client> {
  const client = new Client({
    host: '127.0.0.1',
    port: door.port,
    user: 'root',
    database: 'postgres',
    ...more,
  });
  client.on('error', () => undefined);
  await client.connect();
  assert.equal((await client.query('select 1')).rowCount, 1);
  return client;
}

suite('unauthenticated clients that hold openings of the SQL port do not keep others out', () => {
  for (const [i, [name, talk]] of states.entries()) {
    // The cheapest of them against the door's own bound; each renewal of the others costs it more.
    const bounds = i === 0 ? {} : few;
    const sockets = i === 0 ? 400 : fewSockets;
    test(`${sockets} sockets that ${name} do not keep other clients from the SQL port`, async (t) => {
      if (tls === null) return t.skip('needs openssl');
      const door = await openTestDoor(
        { kind: 'unix', path: server.socket },
        { tls: tls.source, limits: bounds },
      );
      onEnd(t, 'door', () => door.door.close());
      const ssl = { ca: tls.ca };
      const before = await comesIn(door, { ssl });
      for (const from of [['127.0.0.1'], addresses]) {
        const held = await holdSockets(door.port, sockets, from, talk);
        onEnd(t, 'sockets', () => held.close());
        for (let i = 0; i < 5; i++) await (await comesIn(door, i % 2 === 0 ? { ssl } : {})).end();
        assert.ok(held.renewed > 0);
        held.close();
      }
      // Who is in stays in.
      assert.equal((await before.query('select 1')).rowCount, 1);
      await before.end();
    });
  }

  test('an evicted unauthenticated client receives the reason', async (t) => {
    const door = await openTestDoor({ kind: 'unix', path: server.socket }, { limits: { sqlOpeningsMax: 4 } });
    onEnd(t, 'door', () => door.door.close());
    const held = await holdSockets(door.port, 4, ['127.0.0.2'], () => undefined);
    onEnd(t, 'sockets', () => held.close());
    while (held.renewed === 0) await (await comesIn(door)).end();
    assert.match([...held.lastWords].join(), crowded);
  });

  test('the SQL port evicts unauthenticated clients during the password exchange, too', async (t) => {
    const known = makeVerifier('secret', Buffer.from('0123456789abcdef'));
    const door = await openTestDoor(
      { kind: 'unix', path: server.socket },
      {
        passwords: {
          key: Buffer.alloc(32, 1),
          verifier: (user) => Promise.resolve(user === 'root' ? known : null),
        },
      },
    );
    onEnd(t, 'door', () => door.door.close());
    const held = await holdSockets(door.port, 300, ['127.0.0.1'], (socket) => socket.write(startup));
    onEnd(t, 'sockets', () => held.close());
    for (let i = 0; i < 5; i++) await (await comesIn(door, { password: 'secret' })).end();
    assert.ok(held.renewed > 0);
    await assert.rejects(comesIn(door, { password: 'wrong' }), { code: '28P01' });
  });

  test('wrong passwords for one name slow down its next ones, and no other name', async (t) => {
    const known = makeVerifier('secret', Buffer.from('0123456789abcdef'));
    const passwords = { key: Buffer.alloc(32, 1), verifier: () => Promise.resolve(known) };
    const bounds = { passwords, limits: { sqlPasswordPauseMs: 60_000 } };
    const door = await openTestDoor({ kind: 'unix', path: server.socket }, bounds);
    onEnd(t, 'door', () => door.door.close());
    const wrong = () => comesIn(door, { password: 'wrong' });
    for (let i = 0; i < limits.sqlWrongPasswordsMax; i++) await assert.rejects(wrong(), { code: '28P01' });
    await assert.rejects(wrong(), { code: '53300' });
    await (await comesIn(door, { user: 'honest', password: 'secret' })).end();
  });

  for (const [whose, bounds] of [
    ['the door', { limits: { sqlConnectionsMax: 8, sqlOpeningsMax: 16 } }],
    ['a server with 36 connections', { limits: { sqlOpeningsMax: 16 }, serverConnections: () => 36 }],
  ] as const)
    test(`openings in PostgreSQL's own password exchange are evicted at the bound of ${whose}, and sessions are not`, async (t) => {
      const door = await openTestDoor({ kind: 'unix', path: server.socket }, bounds);
      onEnd(t, 'door', () => door.door.close());
      const honest = { user: 'honest', password: 'secret' };
      const held = await holdSockets(door.port, 8, ['127.0.0.2'], (socket) => socket.write(startup));
      onEnd(t, 'sockets', () => held.close());
      const clients: Client[] = [];
      for (let i = 0; i < 5; i++) clients.push(await comesIn(door, honest));
      assert.match([...held.lastWords].join(), crowded);
      held.close();
      // When all places are taken by who is known there is none to be had.
      await within(5_000, async () => {
        for (; clients.length < 8;) clients.push(await comesIn(door, honest));
        await assert.rejects(comesIn(door, honest), {
          code: '53300',
          message: 'sorry, too many clients already',
        });
      });
      // But some for other roles, and not for one of them alone.
      const other = { user: 'other', password: 'secret' };
      for (let i = 0; i < limits.sqlReservedOfOneMax; i++) clients.push(await comesIn(door, other));
      await assert.rejects(comesIn(door, other), { code: '53300' });
      for (const client of clients) {
        assert.equal((await client.query('select 1')).rowCount, 1);
        await client.end();
      }
    });
});
