/**
 * Ten minutes (HEADGATE_TEST_SECONDS) of what strangers can do before they are anybody: openings of the SQL port, and connections that
 * the main process hands to its listener processes, in every half-done state. Nobody else is kept out meanwhile, nothing is met
 * that is a bug, and in the end no descriptor and no session of the engine is left.
 */
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { mutate, pick } from '../support/fuzz.ts';
import type { Random } from '../support/fuzz.ts';
import { startHeadgate } from '../support/headgate.ts';
import { listenerProcesses, postAlone } from '../support/listeners.ts';
import { seededRandom } from '../support/random.ts';
import { within } from '../support/within.ts';

const seconds = Number(process.env['HEADGATE_TEST_SECONDS'] ?? 600);
/** Longest wait of an honest client for all that it wants, ms; what the machine does besides is in it. */
const honestMs = 10_000;
const strangers = 48;

function packet(code: number, text: string): Buffer {
  const bytes = Buffer.from(`\0\0\0\0\0\0\0\0${text}`, 'latin1');
  bytes.writeInt32BE(bytes.length, 0);
  bytes.writeInt32BE(code, 4);
  return bytes;
}

const protocol = 196_608;
const startup = packet(protocol, 'user\0root\0database\0dev\0\0');
const sslRequest = packet(80_877_103, '');

const openings: readonly ((random: Random) => Buffer)[] = [
  () => Buffer.of(),
  () => startup,
  () => sslRequest,
  () => packet(80_877_104, ''),
  () => Buffer.concat([sslRequest, startup]),
  (random) => packet(80_877_102, String.fromCharCode(...Array.from({ length: 8 }, () => random() * 256))),
  (random) => packet(protocol, `user\0root\0options\0${'-c x=y '.repeat(random() * 1_000)}\0\0`),
  (random) => packet(protocol, `user\0nobody ${random()}\0database\0none ${random()}\0\0`),
  (random) => packet(protocol + Math.floor(random() * 9), 'user\0root\0_pq_.x\x001\0\0'),
  () => Buffer.from([0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0]),
  () => Buffer.from([0x16, 3, 1, 2, 0, 1]),
  () => Buffer.concat([startup, Buffer.from('p\0\0\0\x06a\0'.repeat(200), 'latin1')]),
  () => Buffer.concat([startup, Buffer.from('Q\0\0\0\x0dselect 1\0Q\0\0\xff\xffsel', 'latin1')]),
];
const requests: readonly string[] = [
  '',
  'P',
  'POST /webhook/dev/public/ledger HTTP/1.1\r\nHost: h\r\n',
  'POST /webhook/dev/public/ledger HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n{"a"',
  'GET /ingest/dev/public/ledger HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n',
];

/** What one stranger does with a connection. */
async function bother(random: Random, port: number, bytes: Buffer): Promise<void> {
  const socket = connect({ port, host: '127.0.0.1' });
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  socket.on('error', () => undefined).resume();
  const end = pick<(it: Socket) => void>(random, [
    (it) => it.destroy(),
    (it) => it.resetAndDestroy(),
    (it) => it.end(),
  ]);
  const said = random() < 0.5 ? bytes : mutate(random, bytes);
  const cut = Math.floor(random() * said.length);
  socket.write(said.subarray(0, cut));
  if (random() < 0.7) socket.write(said.subarray(cut));
  // Some at once, some while they are being handed on, some after they were taken for silent.
  if (random() < 0.8) await delay(random() ** 4 * 1_000);
  end(socket);
  await Promise.race([closed, delay(2_000)]);
  socket.destroy();
  await closed;
}

test(`${seconds} s of malformed connections to the SQL port and the webhook port do not delay other clients`, async (t) => {
  const { random, seed } = seededRandom();
  t.diagnostic(`seed ${seed}`);
  const headgate = await startHeadgate(t, { env: { HEADGATE_LISTENERS: '2' } });
  const { sql, listen } = headgate.ports;
  const root = await headgate.client(t);
  await root.query(`CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook')`);
  const post = () => postAlone(`${headgate.webhookUrl}/dev/public/ledger`, '{}', {});
  await within(5_000, async () => assert.equal(await post(), 200));
  const main = headgate.child.pid ?? 0;
  const descriptors = () =>
    [main, ...listenerProcesses(main).map(({ pid }) => pid)].map(
      (pid) => readdirSync(`/proc/${pid}/fd`).length,
    );
  const sessions = async () => {
    const { rows } = await root.query<{ n: number }>(
      `SELECT count(*)::int AS n FROM pg_stat_activity WHERE backend_type = 'client backend'`,
    );
    return rows[0]?.n ?? 0;
  };
  const [descriptorsBefore, sessionsBefore] = [descriptors(), await sessions()];
  const end = performance.now() + seconds * 1_000;
  const tally = { bothered: 0, honest: 0, longestMs: 0 };
  const stranger = async (i: number) => {
    while (performance.now() < end) {
      if (i % 3 === 0) await bother(random, listen.port, Buffer.from(pick(random, requests)));
      else await bother(random, sql.port, pick(random, openings)(random));
      tally.bothered += 1;
    }
  };
  const honest = async () => {
    while (performance.now() < end) {
      const began = performance.now();
      let step = 'a session opens';
      try {
        const client = new Client({ host: '127.0.0.1', port: sql.port, user: 'root', database: 'dev' });
        client.on('error', () => undefined);
        await client.connect();
        step = 'a session is asked';
        assert.deepEqual((await client.query('select 1 as one')).rows, [{ one: 1 }]);
        await client.end();
        step = 'a webhook is posted';
        assert.equal(await post(), 200);
      } catch (cause) {
        const log = headgate.stderr.slice(-2_000);
        throw new Error(`${step}, number ${tally.honest}, after ${performance.now() - began} ms: ${log}`, {
          cause,
        });
      }
      const ms = performance.now() - began;
      assert.ok(ms < honestMs, `an honest client waited ${ms} ms`);
      tally.longestMs = Math.max(tally.longestMs, ms);
      tally.honest += 1;
    }
  };
  await Promise.all([honest(), ...Array.from({ length: strangers }, (_, i) => stranger(i))]);
  t.diagnostic(
    `${tally.bothered} strangers, ${tally.honest} honest clients, who waited ${tally.longestMs.toFixed(0)} ms at most`,
  );
  assert.ok(tally.honest > 0);
  assert.doesNotMatch(headgate.stderr, /request\.failed|sql\.failed|uncaught|listener\.lost|engine\.lost/i);
  // Sessions of the pools may have come; those of strangers are gone, however they left.
  await within(70_000, async () => {
    const now = descriptors();
    now.forEach((count, i) => assert.ok(count <= (descriptorsBefore[i] ?? 0) + 16, String(now)));
    assert.ok((await sessions()) <= sessionsBefore + 8);
  });
});
