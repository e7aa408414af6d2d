/**
 * Pebble, Let's Encrypt's ACME authority for tests, and its name server: real programs on ports of this machine, which resolve every
 * domain to 127.0.0.1. They end with the test.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { makeAuthority } from './certificates.ts';
import { onEnd } from './cleanup.ts';
import { temporaryFolder } from './headgate.ts';
import { freePort } from './proxy.ts';
import { within } from './within.ts';

export interface Pebble {
  readonly directory: string;
  /** The CA of the authority's own https, for NODE_EXTRA_CA_CERTS. */
  readonly ca: string;
  /** The root for clients that trust certificates of this authority (PEM). */
  root(): Promise<string>;
  /** From now on every request to it fails, until it is started again. */
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Changes the address of a domain. */
  at(domain: string, address: string): Promise<void>;
}

export interface PebbleOptions {
  /** Where the authority connects. */
  readonly tlsPort?: number;
  readonly httpPort?: number;
  /** How long a certificate is valid. */
  readonly seconds?: number;
  /** How many of a hundred nonces are refused. */
  readonly badNonces?: number;
  /** Existing accounts: key identifier → key. */
  readonly accounts?: Readonly<Record<string, string>>;
}

export async function startPebble(t: TestContext, options: PebbleOptions): Promise<Pebble> {
  const bin = process.env['HEADGATE_PEBBLE'] ?? '';
  const folder = await temporaryFolder(t);
  const authority = makeAuthority(folder);
  const { cert, key } = authority.issue('pebble', 'pebble');
  const [port, management, dns, dnsManagement] = [
    await freePort(),
    await freePort(),
    await freePort(),
    await freePort(),
  ];
  const config = join(folder, 'pebble.json');
  const { tlsPort = 1, httpPort = 1, seconds = 7_776_000, badNonces = 5, accounts } = options;
  writeFileSync(
    config,
    JSON.stringify({
      pebble: {
        listenAddress: `127.0.0.1:${port}`,
        managementListenAddress: `127.0.0.1:${management}`,
        certificate: cert,
        privateKey: key,
        httpPort,
        tlsPort,
        externalAccountBindingRequired: accounts !== undefined,
        ...(accounts === undefined ? {} : { externalAccountMACKeys: accounts }),
        domainBlocklist: ['blocked.example.com'],
        retryAfter: { authz: 1, order: 1 },
        profiles: { default: { description: 'the only one', validityPeriod: seconds } },
      },
    }),
  );
  const names = spawn(
    join(bin, 'pebble-challtestsrv'),
    ['-dnsserver', `127.0.0.1:${dns}`, '-management', `127.0.0.1:${dnsManagement}`].concat(
      ['-defaultIPv4', '127.0.0.1', '-defaultIPv6', '', '-doh', ''],
      ['-http01', '', '-https01', '', '-tlsalpn01', ''],
    ),
    { stdio: 'ignore' },
  );
  onEnd(t, 'name server', () => end(names));
  let child: ChildProcess | null = null;
  const get = (path: string) =>
    new Promise<string>((resolve, reject) => {
      const asked = request({ host: '127.0.0.1', port: management, path, rejectUnauthorized: false });
      asked.once('error', reject);
      asked.once('response', (answer) => {
        let text = '';
        answer.setEncoding('utf8').on('data', (part: string) => (text += part));
        answer.once('end', () => resolve(text));
      });
      asked.end();
    });
  const pebble: Pebble = {
    directory: `https://127.0.0.1:${port}/dir`,
    ca: authority.cert,
    root: async () => `${await get('/roots/0')}\n${await get('/intermediates/0')}`,
    stop: async () => {
      if (child !== null) await end(child);
      child = null;
    },
    start: async () => {
      child = spawn(join(bin, 'pebble'), ['-config', config, '-strict', '-dnsserver', `127.0.0.1:${dns}`], {
        env: { ...process.env, PEBBLE_VA_NOSLEEP: '1', PEBBLE_WFE_NONCEREJECT: String(badNonces) },
        stdio: 'ignore',
      });
      await within(10_000, () => get('/roots/0'));
    },
    at: async (domain, address) => {
      const ask = async (path: string, body: object) => {
        const url = `http://127.0.0.1:${dnsManagement}/${path}`;
        const { ok } = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
        if (!ok) throw new Error(`the name server did not take ${path}`);
      };
      await within(5_000, () => ask('clear-a', { host: domain }));
      await ask('add-a', { host: domain, addresses: [address] });
    },
  };
  onEnd(t, 'pebble', () => pebble.stop());
  await pebble.start();
  return pebble;
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}
