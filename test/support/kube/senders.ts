/** Senders of webhooks to pods that are replaced, killed and moved meanwhile; and the external PostgreSQL of those pods. */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { chmodSync, writeFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'pg';
import { onEnd } from '../cleanup.ts';
import { temporaryFolder } from '../headgate.ts';
import { startServer } from '../server.ts';
import { within } from '../within.ts';
import { network } from './node.ts';
import { Kube, settleMs } from './shipped.ts';

const sendersAtATime = 8;
const pauseMs = 20;
const answerMs = 20_000;

/** By number: the status of the answer, or why there was none. */
class Senders {
  readonly #outcomes = new Map<number, string>();
  readonly #run = randomUUID();
  readonly #ended: Promise<unknown>;
  #isOver = false;

  /** Half of them keep their connection, the others use a new one for each request. */
  constructor(t: TestContext, url: string) {
    this.#ended = Promise.all(
      Array.from({ length: sendersAtATime }, async (_, sender) => {
        const agent = sender % 2 === 0 ? new Agent({ keepAlive: true, maxSockets: 1 }) : false;
        while (!this.#isOver) {
          const n = this.#outcomes.size;
          this.#outcomes.set(n, 'on its way');
          this.#outcomes.set(n, await posted(url, agent, { run: this.#run, n }));
          await pause(pauseMs);
        }
        if (agent !== false) agent.destroy();
      }),
    );
    onEnd(t, 'senders', () => this.stop());
  }

  /** Resolves once this many more have been answered 200. */
  async more(count: number): Promise<void> {
    const wanted = this.taken.length + count;
    await within(settleMs, async () => assert(this.taken.length >= wanted, this.told));
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#ended;
  }

  /** The requests answered 200. */
  get taken(): number[] {
    return [...this.#outcomes].filter(([, outcome]) => outcome === '200').map(([n]) => n);
  }

  /** E.g. `3482 × 200, 48 × ECONNREFUSED`. */
  get told(): string {
    const counts = new Map<string, number>();
    for (const outcome of this.#outcomes.values()) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    return [...counts].map(([outcome, count]) => `${count} × ${outcome}`).join(', ');
  }

  /** Every request was answered 200, and is one row. */
  async assertNoneFailed(client: Client): Promise<void> {
    assert.equal(this.taken.length, this.#outcomes.size, this.told);
    await this.assertStored(client);
  }

  /** Every request answered 200 is one row, every other at most one. */
  async assertStored(client: Client): Promise<void> {
    const { rows } = await client.query<{ n: number }>(
      `select (data->>'n')::int as n from hooks where data->>'run' = $1`,
      [this.#run],
    );
    const stored = new Set(rows.map(({ n }) => n));
    assert.equal(stored.size, rows.length, 'nothing is stored twice');
    assert.deepEqual(
      this.taken.filter((n) => !stored.has(n)),
      [],
      'what was answered with 200 is stored',
    );
  }
}

function posted(url: string, agent: Agent | false, body: object): Promise<string> {
  const headers = { 'content-type': 'application/json', signature: 'test' };
  return new Promise((resolve) => {
    const sent = request(url, { method: 'POST', agent, headers, timeout: answerMs }, (response) => {
      response
        .resume()
        .once('end', () => resolve(String(response.statusCode)))
        .once('error', () => resolve('cut'));
    });
    sent.once('timeout', () => sent.destroy(Object.assign(new Error(), { code: 'timeout' })));
    sent.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    sent.end(JSON.stringify(body));
  });
}

/** A PostgreSQL that pods can reach, with a database `dev`; returns its URL. */
export async function startDatabase(t: TestContext): Promise<string> {
  const folder = await temporaryFolder(t);
  // The server does not run as root.
  chmodSync(folder, 0o711);
  const rules = join(folder, 'pg_hba.conf');
  writeFileSync(rules, 'local all all trust\nhost all all all trust\n', { mode: 0o644 });
  const server = await startServer(undefined, [`listen_addresses=${network.address}`, `hba_file=${rules}`]);
  onEnd(t, 'PostgreSQL', () => server.close());
  const client = new Client({ host: server.socketDir, user: 'root', database: 'postgres' });
  await client.connect();
  await client.query('create database dev');
  await client.end();
  return `postgresql://root@${network.address}:5432/dev`;
}

/** Requests to a release or a Headgate of this namespace, at the address of its Service. */
export class Hooks {
  readonly kube: Kube;
  readonly namespace: string;
  readonly #service: string;

  private constructor(kube: Kube, namespace: string, service: string) {
    this.kube = kube;
    this.namespace = namespace;
    this.#service = service;
  }

  /** In a namespace that accepts only `restricted` pods, with Secrets of these names. */
  static async open(
    t: TestContext,
    namespace: string,
    service: string,
    secrets: Readonly<Record<string, string>>,
  ): Promise<Hooks> {
    const kube = await Kube.open(t);
    await kube.namespace(t, namespace);
    const hooks = new Hooks(kube, namespace, service);
    for (const [name, literal] of Object.entries(secrets))
      await hooks.kubectl('create', 'secret', 'generic', name, `--from-literal=${literal}`);
    return hooks;
  }

  kubectl(...args: readonly string[]): Promise<string> {
    return this.kube.run('kubectl', [...args, `--namespace=${this.namespace}`]);
  }

  helm(...args: readonly string[]): Promise<string> {
    return this.kube.run('helm', [...args, `--namespace=${this.namespace}`]);
  }

  async pods(): Promise<readonly Pod[]> {
    const these = [`--namespace=${this.namespace}`, '--selector=app.kubernetes.io/name=headgate'];
    const { items } = await this.kube.json<{ items: readonly Pod[] }>('get', 'pods', ...these);
    return items;
  }

  async #address(): Promise<string> {
    return this.kubectl('get', 'service', this.#service, '--output=jsonpath={.spec.clusterIP}');
  }

  /** To its SQL port. */
  async connect(t: TestContext, password = ''): Promise<Client> {
    const host = await this.#address();
    const client = await within(settleMs, async () => {
      const made = new Client({ host, port: 4567, user: 'root', database: 'dev', password });
      made.on('error', () => undefined);
      await made.connect();
      return made;
    });
    onEnd(t, 'client', () => client.end());
    return client;
  }

  /** Creates the table for the requests, and resolves once some requests are answered. */
  async send(t: TestContext, client: Client): Promise<Senders> {
    await client.query(`CREATE TABLE hooks (data JSONB) WITH (connector = 'webhook')
      VALIDATE AS secure_compare(headers->>'signature', 'test')`);
    return this.sendAgain(t);
  }

  async sendAgain(t: TestContext): Promise<Senders> {
    const senders = new Senders(t, `http://${await this.#address()}:4560/webhook/dev/public/hooks`);
    await senders.more(100);
    return senders;
  }
}

interface Pod {
  readonly metadata: { readonly name: string; readonly uid: string; readonly deletionTimestamp?: string };
  readonly status: {
    readonly podIP?: string;
    readonly containerStatuses?: readonly { readonly ready: boolean; readonly restartCount: number }[];
  };
}

export const isReady = ({ metadata, status }: Pod) =>
  metadata.deletionTimestamp === undefined && status.containerStatuses?.[0]?.ready === true;
