/**
 * A hostile client, in a process of its own: `attacker.js NAME LISTEN_PORT SQL_PORT GATEWAY_PORT SECONDS`. Prints the answers it
 * got.
 */
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { WebSocket } from 'ws';
import { colliding, objectOf, slowToSort } from '../test/support/key-floods.ts';

interface Aim {
  readonly port: number;
  readonly sqlPort: number;
  readonly gatewayPort: number;
  /** The performance.now() at which it ends. */
  readonly end: number;
  /** Counts an answer. */
  note(what: string): void;
}

const MiB = 2 ** 20;
const bodyBytes = 25 * MiB;

function fill(piece: string, bytes = bodyBytes): Buffer {
  return Buffer.from(piece.repeat(Math.floor(bytes / piece.length)));
}

function head(table: string, length: number, headers = ''): string {
  return `POST /webhook/dev/public/${table} HTTP/1.1\r\nHost: h\r\n${headers}Content-Length: ${length}\r\n\r\n`;
}

function dial(port: number): Socket {
  const socket = connect({ port, host: '127.0.0.1' });
  socket.on('error', () => undefined);
  return socket;
}

/** Sends one request on a connection of its own; returns the status of the answer. */
function ask(aim: Aim, start: string, body: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const socket = dial(aim.port);
    socket.on('connect', () => {
      socket.write(start, 'latin1');
      socket.write(body);
    });
    socket.once('data', (bytes: Buffer) => {
      resolve(/^HTTP\/1.1 (\d+)/.exec(bytes.toString('latin1'))?.[1] ?? 'odd');
      socket.destroy();
    });
    socket.once('close', () => resolve('cut'));
  });
}

/** The same body repeatedly, on a number of connections. */
async function flood(
  aim: Aim,
  connections: number,
  table: string,
  body: Buffer,
  headers = '',
): Promise<void> {
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < aim.end) aim.note(await ask(aim, head(table, body.length, headers), body));
    }),
  );
}

/** Bodies of `count` times these chunks. */
async function chunkedFlood(
  aim: Aim,
  connections: number,
  chunks: Buffer,
  count: number,
  target = '/webhook/dev/public/signed',
): Promise<void> {
  const body = Buffer.concat([...Array.from({ length: count }, () => chunks), Buffer.from('0\r\n\r\n')]);
  const start = `POST ${target} HTTP/1.1\r\nHost: localhost:${aim.gatewayPort}\r\nx-signature: 00\r\nTransfer-Encoding: chunked\r\n\r\n`;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < aim.end) aim.note(await ask(aim, start, body));
    }),
  );
}

/** The same body repeatedly to the events gateway. */
async function gatewayFlood(aim: Aim, connections: number, target: string, body: Buffer): Promise<void> {
  const start = `POST ${target} HTTP/1.1\r\nHost: localhost:${aim.gatewayPort}\r\nContent-Length: ${body.length}\r\n\r\n`;
  const at = { ...aim, port: aim.gatewayPort };
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < aim.end) aim.note(await ask(at, start, body));
    }),
  );
}

/** A body that takes seconds to make; the time starts after that. */
function prepared(aim: Aim, table: string, make: () => string): Promise<void> {
  const leftMs = aim.end - performance.now();
  const body = Buffer.from(make());
  return flood({ ...aim, end: performance.now() + leftMs }, 4, table, body);
}

async function hold(aim: Aim, connections: number, each: (socket: Socket, i: number) => void): Promise<void> {
  for (let i = 0; i < connections; i++) {
    const socket = dial(aim.port);
    socket.on('connect', () => each(socket, i));
    socket.on('close', () => aim.note('closed'));
    if (i % 200 === 199) await delay(20);
  }
  aim.note(`${connections} connections`);
  await delay(Math.max(0, aim.end - performance.now()));
  process.stdout.write(told(), () => process.exit());
  await new Promise(() => undefined);
}

async function sockets(aim: Aim, connections: number, messages: readonly string[]): Promise<void> {
  await Promise.all(
    Array.from({ length: connections }, async () => {
      while (performance.now() < aim.end) {
        const ws = new WebSocket(`ws://127.0.0.1:${aim.port}/ingest/dev/public/open`);
        ws.on('error', () => undefined);
        ws.on('message', (data: Buffer) => aim.note(data.toString().startsWith('{"ack') ? 'ack' : 'fatal'));
        const closed = new Promise<void>((resolve) => ws.once('close', () => resolve()));
        await Promise.race([new Promise<void>((resolve) => ws.once('open', () => resolve())), closed]);
        ws.send(`{"type":"init","timestamp":${Date.now()}}`);
        for (const message of messages) ws.send(message);
        await Promise.race([closed, delay(Math.max(0, aim.end - performance.now()))]);
        ws.terminate();
      }
    }),
  );
}

const manyHeaders = Array.from({ length: 190 }, (_, i) => `x-${i}: ${'v'.repeat(60)}\r\n`).join('');
const keys = () => Array.from({ length: 150_000 }, (_, i) => `"${i * 65_536}":1`).join(',');

const attackers: Readonly<Record<string, (aim: Aim) => Promise<void>>> = {
  'nothing at all': (aim) => delay(aim.end - performance.now()),
  'large documents': (aim) => flood(aim, 4, 'open', Buffer.from(`"${'x'.repeat(bodyBytes - 2)}"`)),
  'large documents of small values': (aim) => flood(aim, 4, 'open', Buffer.concat([fill('[1],', bodyBytes - 3).fill('[', 0, 1), Buffer.from('1]]')])),
  'brackets without end': (aim) => flood(aim, 8, 'open', fill('[')),
  'the deepest documents': (aim) => flood(aim, 8, 'open', Buffer.from('['.repeat(512) + ']'.repeat(512))),
  'numbers that grow': (aim) => flood(aim, 4, 'open', Buffer.from(`[${'1e131071,'.repeat(10_000)}1]`)),
  'batches of a million lines': (aim) => flood(aim, 2, 'lines', fill('{"id":123456789}\n', 16 * MiB)),
  'numbers without end': (aim) => flood(aim, 4, 'typed', Buffer.from(`{"id":1,"n":${'9'.repeat(5 * MiB)}}`)),
  'hundreds of thousands of keys': (aim) => flood(aim, 4, 'typed', Buffer.from(`{${keys()}}`)),
  'keys that are the slowest to sort': (aim) => prepared(aim, 'open', () => objectOf(slowToSort(31_622))),
  'keys that collide': (aim) => prepared(aim, 'typed', () => objectOf(colliding(8_000, Math.random))),
  'batches of small lines': (aim) => flood(aim, 2, 'wide', fill('1\n')),
  'batches with every header': (aim) => flood(aim, 2, 'wide', fill(`{"a":"${'x'.repeat(150)}"}\n`), 'x-a: 1\r\n'.repeat(50)),
  'batches that headers make too large': (aim) => flood(aim, 2, 'wide', fill('1\n'), manyHeaders),
  'forms of a million fields': (aim) => flood(aim, 2, 'form', fill('a=1&', 10 * MiB)),
  'forms of escapes': (aim) => flood(aim, 2, 'form', Buffer.concat([Buffer.from('a='), fill('%41', 24 * MiB)])),
  'unsigned large bodies': (aim) => flood(aim, 8, 'signed', randomBytes(bodyBytes), 'x-signature: 00\r\n'),
  'more large bodies than are let in': (aim) => flood(aim, 32, 'signed', randomBytes(bodyBytes), 'x-signature: 00\r\n'),
  'large bodies of no announced length': (aim) => chunkedFlood(aim, 8, Buffer.concat([Buffer.from('10000\r\n'), Buffer.alloc(65_536, 'x'), Buffer.from('\r\n')]), bodyBytes / 65_536),
  'bodies in the smallest chunks': (aim) => chunkedFlood(aim, 8, fill('1\r\nx\r\n', 60_000), (4 * MiB) / 10_000),
  'bombs of gzip': (aim) => flood(aim, 8, 'open', gzipSync(Buffer.alloc(200 * MiB, 32)), 'Content-Encoding: gzip\r\n'),
  'bombs of brotli that fit': (aim) => flood(aim, 16, 'open', brotliCompressSync(Buffer.alloc(bodyBytes, 32)), 'Content-Encoding: br\r\n'),
  'every header there may be': (aim) => flood(aim, 32, 'open', Buffer.from('{}'), manyHeaders),
  'garbage': (aim) => flood(aim, 32, 'open', randomBytes(2_000)),
  '10,000 idle connections': (aim) => hold(aim, 10_000, () => undefined),
  '5,000 slow headers': (aim) => hold(aim, 5_000, (socket) => drip(socket, 'POST /webhook/dev/public/open HTTP/1.1\r\nHost: h\r\n')),
  '5,000 slow bodies': (aim) => hold(aim, 5_000, (socket) => drip(socket, head('open', 1_000_000))),
  'bodies that are announced and never come': (aim) => hold(aim, 5_000, (socket) => socket.write(head('open', bodyBytes))),
  'answers that are never read': (aim) => hold(aim, 200, (socket) => socket.pause().write((head('nosuch', 0)).repeat(5_000))),
  'resets in the middle': async (aim) => {
    const body = fill('x', 100_000);
    while (performance.now() < aim.end) {
      await Promise.all(Array.from({ length: 50 }, () => new Promise<void>((resolve) => {
        const socket = dial(aim.port);
        socket.on('connect', () => {
          socket.write(head('open', body.length));
          socket.write(body.subarray(0, Math.random() * body.length), () => socket.resetAndDestroy());
        });
        socket.on('close', () => resolve());
      })));
      aim.note('50 resets');
    }
  },
  'WebSockets: the largest batches': (aim) => sockets(aim, 4, Array.from({ length: 20 }, (_, i) => `{"dml_batch_id":${i},"items":[{"op":"insert","data":"${'x'.repeat(15 * MiB)}"}]}`)),
  'WebSockets: batches of small items': (aim) => sockets(aim, 2, Array.from({ length: 4 }, (_, i) => `{"dml_batch_id":${i},"items":[${'{"op":"insert","data":1},'.repeat(190_000)}{"op":"insert","data":1}]}`)),
  'WebSockets: 2,000 that say nothing': (aim) => hold(aim, 2_000, (socket) => socket.write('GET /ingest/dev/public/open HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n')),
  'events: 100 MiB of small lines': (aim) => gatewayFlood(aim, 4, '/v1/events?name=plain', fill('{"a":1}\n', 100 * MiB)),
  'events: lines as large as may be': (aim) => gatewayFlood(aim, 32, '/v1/events?name=plain', Buffer.from(`{"b":"${'x'.repeat(15 * MiB)}"}\n`.repeat(6))),
  'events: in the smallest chunks': (aim) => chunkedFlood({ ...aim, port: aim.gatewayPort }, 8, fill('1\r\n \r\n', 60_000), (4 * MiB) / 10_000, '/v1/events?name=plain'),
  'SQL over HTTP: the largest statements': (aim) => gatewayFlood(aim, 32, '/v1/sql', Buffer.from(`select length('${'x'.repeat(15 * MiB)}')`)),
  'SQL over HTTP: the largest results': (aim) => gatewayFlood(aim, 16, '/v1/sql', Buffer.from(`select repeat('x', 60000000)`)),
  'SQL: 1,000 connections that say nothing': (aim) => hold({ ...aim, port: aim.sqlPort }, 1_000, () => undefined),
  'unknown paths': (aim) => flood(aim, 32, randomBytes(8).toString('hex'), Buffer.from('{}')),
}; // prettier-ignore

export const attackNames: readonly string[] = Object.keys(attackers);

/** Sends a byte every second. */
function drip(socket: Socket, start: string): void {
  socket.write(start);
  const timer = setInterval(() => socket.write('x'), 1_000);
  socket.on('close', () => clearInterval(timer));
}

const seen = new Map<string, number>();

function told(): string {
  return [...seen].map(([what, n]) => (what.endsWith('connections') ? what : `${n} × ${what}`)).join(', ');
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [name = '', port, sqlPort, gatewayPort, seconds] = process.argv.slice(2);
  await attackers[name]?.({
    port: Number(port),
    sqlPort: Number(sqlPort),
    gatewayPort: Number(gatewayPort),
    end: performance.now() + Number(seconds) * 1_000,
    note: (what) => void seen.set(what, (seen.get(what) ?? 0) + 1),
  });
  process.stdout.write(told());
}
