/**
 * The first hour with a vendor's own package on both ends: `headgate init` on a terminal, a delivery that the package signs, its row with the
 * event's name in psql, and the request that `headgate listen` sends on, which the package judges in the developer's program.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { sign as signGithub, verify as verifyGithub } from '@octokit/webhooks-methods';
import Stripe from 'stripe';
import twilio from 'twilio/lib/webhooks/webhooks.js';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import { keys, openTerminal } from '../support/pty.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

interface Vendor {
  readonly sender: string;
  readonly secret: string;
  /** Keys in an order that jsonb changes, and blanks that it removes. */
  readonly body: string;
  readonly event: string;
  readonly sign: (body: string, secret: string) => Promise<Readonly<Record<string, string>>>;
  /** What the developer's program does with the request; throws if it is not the vendor's. */
  readonly judge: (body: string, header: (name: string) => string, secret: string) => Promise<string>;
}

const vendors: readonly Vendor[] = [
  {
    sender: 'github',
    secret: "It's a secret",
    body: '{"zen" : "Größe", "action":"opened",  "a":1}',
    event: 'pull_request',
    sign: async (body, secret) => ({
      'x-github-event': 'pull_request',
      'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
      'x-hub-signature-256': await signGithub(secret, body),
    }),
    judge: async (body, header, secret) => {
      assert(await verifyGithub(secret, body, header('x-hub-signature-256')));
      return header('x-github-event');
    },
  },
  {
    sender: 'stripe',
    secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
    body: '{"type":"charge.refunded", "id":"evt_1",  "object":"event","data":{"object":{}}}',
    event: 'charge.refunded',
    sign: async (payload, secret) => ({
      'stripe-signature': Stripe.webhooks.generateTestHeaderString({ payload, secret }),
    }),
    judge: async (body, header, secret) =>
      Stripe.webhooks.constructEvent(body, header('stripe-signature'), secret).type,
  },
];

interface Received {
  readonly body: string;
  readonly header: (name: string) => string;
}

/** The developer's program: the first request that it gets. */
async function program(t: TestContext): Promise<{ url: string; first: Promise<Received> }> {
  const server = createServer();
  const first = new Promise<Received>((resolve) =>
    server.on('request', (request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        response.end();
        const header = (name: string): string => String(request.headers[name] ?? '');
        resolve({ body: Buffer.concat(pieces).toString(), header });
      });
    }),
  );
  server.listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  onEnd(t, 'program', () => new Promise<void>((resolve) => void server.close(() => resolve())));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, first };
}

test(
  "headgate init and listen work with a vendor's package on both ends",
  { timeout: 180_000 },
  async (t) => {
    const psql = requireTool(t, 'psql');
    if (psql === null || requireTool(t, 'script') === null) return;
    const headgate = await startHeadgate(t);
    const onTerminal = (step: TestContext, args: string) => {
      const command = `${process.execPath} ${cli} ${args} --data-dir=${headgate.dataDir}`;
      const env = { PATH: process.env['PATH'] ?? '' };
      const terminal = openTerminal(step, command, { cwd: headgate.dataDir, env });
      assert(terminal !== null);
      return terminal;
    };
    for (const { sender, secret, body, event, sign, judge } of sampleOf(vendors, 1))
      await t.test(
        `headgate init and headgate listen bring a first delivery of ${sender} into a local program`,
        async (step) => {
          const table = `${sender}_events`;
          const deliver = async () => headgate.post(`dev/public/${table}`, body, await sign(body, secret));
          const init = onTerminal(step, `init ${sender}`);
          await init.shows(/Paste the secret[^]*Enter alone/);
          init.type(`${secret}\r`);
          await init.shows(/its row was deleted again[^]*waiting for the first real delivery/);
          assert.equal((await deliver()).status, 200);
          assert.equal(await init.ended, 0, init.screen);
          assert.match(init.screen, new RegExp(`received\\s+\\S+ {2}${event}\\s`));
          assert(!init.screen.includes(secret));
          const sql = `SELECT event, count(*) FROM ${table} GROUP BY event`;
          const at = ['-h', '127.0.0.1', '-p', String(headgate.ports.sql.port), '-d', 'dev', '-U', 'root'];
          assert.equal((await run(psql, [...at, '-XAtc', sql])).stdout, `${event}|1\n`);

          const { url, first } = await program(step);
          const interrupted = onTerminal(step, `listen ${table} --forward-to ${url} --sender ${sender}`);
          await interrupted.shows(/The secret \(it is not shown\): /);
          interrupted.type(keys.interrupt);
          assert.equal(await interrupted.ended, 130, interrupted.screen);
          const listen = onTerminal(step, `listen ${table} --forward-to ${url} --sender ${sender}`);
          await listen.shows(/The secret \(it is not shown\): /);
          listen.type(`${secret}\r`);
          await listen.shows(/listening to/);
          assert.equal((await deliver()).status, 200);
          const got = await first;
          assert.equal(got.body, body);
          assert.equal(await judge(got.body, got.header, secret), event);
          listen.type(keys.interrupt);
          assert.equal(await listen.ended, 130, listen.screen);
          assert(!listen.screen.includes(secret));
        },
      );
  },
);

test(
  'headgate init uses HEADGATE_PUBLIC_URL, so that a sender that signs the URL can deliver at once',
  { timeout: 60_000 },
  async (t) => {
    const publicUrl = 'https://hooks.example.com';
    const headgate = await startHeadgate(t, { env: { HEADGATE_PUBLIC_URL: publicUrl } });
    const at = `--data-dir=${headgate.dataDir}`;
    const token = 'the auth token';
    const init = ['init', 'twilio_form', at, '--table', 'calls', '--secret-file', '-', '--json'];
    const made = await run(process.execPath, [cli, ...init], { input: `${token}\n` });
    assert.equal(made.code, 0, made.stdout + made.stderr);
    const { url, wrong } = JSON.parse(made.stdout) as { url: string; wrong: unknown };
    // Its test delivery was signed for this URL as well, and accepted.
    assert.deepEqual([url, wrong], [`${publicUrl}/webhook/dev/public/calls`, []]);
    const listed = await run(process.execPath, [cli, 'endpoints', at, '--json']);
    assert.equal((JSON.parse(listed.stdout) as { url: string }).url, url);
    const form = { MessageSid: 'SM1', Body: 'Grüße & Küsse', From: '+14155550100' };
    const { status, text } = await headgate.post('dev/public/calls', new URLSearchParams(form).toString(), {
      'content-type': 'application/x-www-form-urlencoded',
      'x-twilio-signature': twilio.getExpectedTwilioSignature(token, url, form),
    });
    assert.equal(status, 200, text);
  },
);
