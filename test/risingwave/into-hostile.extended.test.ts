/** Servers behind `into` that are hostile, broken or hang: what is made of them, and that no connection to them stays. No Headgate is started. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo, Socket } from 'node:net';
import { suite, test } from 'node:test';
import { int16, int32, message, zeroEnded } from '../../src/kit/postgres-message.ts';
import { poolConfigOf } from '../../src/risingwave/client.ts';
import { RwSessions } from '../../src/risingwave/sessions.ts';
import { onEnd } from '../support/cleanup.ts';
import { until } from '../support/until.ts';

const ready = message('Z', Buffer.from('I'));
const welcome = Buffer.concat([message('R', int32(0)), ready]);
const done = (tag: string) => Buffer.concat([message('C', zeroEnded(tag)), ready]);
const failure = message('E', Buffer.from('SERROR\0C42601\0Mno\0\0'));

/** What is answered to a statement, or to the start-up where that is `start`; null: nothing. */
type Says = (sql: string) => Buffer | null;
const obliging: Says = (sql) =>
  sql === 'start' ? welcome : done(sql.startsWith('set') ? 'SET' : 'INSERT 0 1');
const to =
  (what: 'start' | 'set' | 'insert' | 'select', bytes: Buffer | null): Says =>
  (sql) =>
    sql.startsWith(what) ? bytes : obliging(sql);
const many = (it: Buffer): Buffer => Buffer.concat(Array<Buffer>(20_000).fill(it));

const servers: Record<string, readonly [Says, 'done' | 'failed' | 'lost' | 'away']> = {
  'correct replies': [obliging, 'done'],
  'silence at the start': [to('start', null), 'away'],
  'silence during the TLS negotiation': [to('start', Buffer.from('S')), 'away'],
  'an unknown authentication method': [to('start', message('R', int32(99))), 'away'],
  'an unterminated error at the start': [to('start', message('E')), 'away'],
  'a refusal followed by a welcome': [to('start', Buffer.concat([failure, welcome])), 'away'],
  'endless password requests': [to('start', many(message('R', int32(3)))), 'away'],
  'an endless start': [to('start', many(message('S', Buffer.alloc(200)))), 'away'],
  'silence at the settings': [to('set', null), 'away'],
  'an unterminated error in a reply': [to('insert', message('E', Buffer.from('Mx'))), 'lost'],
  'a row with a negative number of values': [
    to(
      'select',
      Buffer.concat([message('T', int16(1), zeroEnded('a'), Buffer.alloc(18)), message('D', int16(0xffff))]),
    ),
    'lost',
  ],
  'rows without columns': [to('select', message('D', int16(0))), 'lost'],
  'a message length of gigabytes': [to('insert', Buffer.from([0x45, 127, 255, 255, 255])), 'lost'],
  'endless notices': [to('insert', many(message('N', Buffer.from('Mx\0\0')))), 'lost'],
  'endless replies': [to('insert', many(message('C', zeroEnded('INSERT 0 1')))), 'lost'],
  'an unknown message type': [to('insert', message('!')), 'lost'],
  silence: [to('insert', null), 'lost'],
  'a well-formed error': [to('insert', Buffer.concat([failure, ready])), 'failed'],
};

suite('the option into survives hostile and broken servers', { concurrency: true }, () => {
  for (const [name, [says, kind]] of Object.entries(servers))
    test(`a statement of the option into to a server with ${name} ends as ${kind} and leaves no connection`, async (t) => {
      const sockets = new Set<Socket>();
      // It never closes its end.
      const server = createServer({ allowHalfOpen: true }, (socket) => {
        sockets.add(socket);
        socket.on('error', () => undefined);
        socket.on('close', () => sockets.delete(socket));
        socket.once('data', () => {
          const answer = says('start');
          if (answer !== null) socket.write(answer);
          socket.on('data', (chunk) => {
            if (chunk[0] !== 0x51) return;
            const bytes = says(chunk.toString('utf8', 5));
            if (bytes !== null) socket.write(bytes);
          });
        });
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      onEnd(t, 'server', () => {
        for (const socket of sockets) socket.destroy();
        server.close();
      });
      const { port } = server.address() as AddressInfo;
      const into = {
        key: '',
        host: '127.0.0.1',
        port,
        user: 'u',
        password: 'p',
        database: 'd',
        tls: name.includes('TLS') ? ('encrypted' as const) : ('none' as const),
      };
      const sessions = new RwSessions(() => poolConfigOf({ ...into, passwordRequired: false }));
      onEnd(t, 'sessions', () => sessions.close());
      const sql = name.includes('row') ? 'select 1' : 'insert';
      assert.equal((await sessions.run('', sql, 500)).kind, kind);
      if (kind === 'done') {
        const asked = new RwSessions(() => poolConfigOf({ ...into, passwordRequired: true }));
        assert.equal((await asked.run('', sql, 500)).kind, 'away');
        await asked.close();
      }
      await sessions.close();
      // Whoever has not closed its own end takes what is written, and no error comes back.
      await until(() => {
        for (const socket of sockets) socket.write('x');
        return sockets.size === 0;
      });
    });
});
