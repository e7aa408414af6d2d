/**
 * deploy/operator as it is applied to a cluster: by the real kubectl, with the operator as a separate process that has the token of the
 * service account in rbac.yaml, and no other rights. Only on the control plane that scripts/test-cluster.ts starts.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../cleanup.ts';
import { temporaryFolder } from '../headgate.ts';
import { requireKubeTool } from '../kube-tools.ts';
import { run } from '../run.ts';
import type { Ran } from '../run.ts';
import { within } from '../within.ts';

const admin = process.env['HEADGATE_TEST_KUBECONFIG'] ?? '';
const auditLog = process.env['HEADGATE_TEST_AUDIT_LOG'] ?? '';
const deployFolder = fileURLToPath(new URL('../../../../deploy/operator', import.meta.url));
const cli = fileURLToPath(new URL('../../../src/app/cli.js', import.meta.url));
const account = 'system:serviceaccount:headgate-operator:headgate-operator';
/** Garbage collection finds a new kind within half a minute, and a lease expires in a quarter of one. */
export const settleMs = 120_000;

export interface AuditEvent {
  readonly verb: string;
  readonly userAgent?: string;
  readonly user: { readonly username: string };
  readonly objectRef?: { readonly resource?: string; readonly namespace?: string; readonly name?: string };
  readonly requestURI: string;
  readonly responseStatus?: { readonly code?: number };
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Objects as listed by kubectl. */
export interface Listed {
  readonly items: readonly {
    readonly kind: string;
    readonly metadata: {
      readonly name: string;
      readonly generation?: number;
      readonly resourceVersion: string;
      readonly labels?: Readonly<Record<string, string>>;
      readonly ownerReferences?: readonly { readonly kind: string }[];
      readonly managedFields?: readonly { readonly manager: string; readonly operation: string }[];
    };
    readonly status?: { readonly phase?: string };
  }[];
}

export const headgate = (name: string, spec: object) => ({
  apiVersion: 'headgate.dev/v1alpha1',
  kind: 'Headgate',
  metadata: { name },
  spec,
});

export interface OperatorProcess {
  log(): string;
  kill(signal: NodeJS.Signals): Promise<void>;
}

export class Kube {
  readonly kubectl: string;
  readonly helm: string;
  readonly #env: NodeJS.ProcessEnv;
  readonly #folder: string;

  private constructor(kubectl: string, helm: string, folder: string) {
    this.kubectl = kubectl;
    this.helm = helm;
    this.#folder = folder;
    this.#env = { PATH: process.env['PATH'], HOME: folder, KUBECONFIG: admin };
  }

  static async open(t: TestContext): Promise<Kube> {
    const [kubectl, helm] = [await requireKubeTool(t, 'kubectl'), await requireKubeTool(t, 'helm')];
    assert(kubectl !== null && helm !== null, 'kubectl and helm are there');
    return new Kube(kubectl, helm, await temporaryFolder(t));
  }

  /** Accepts any exit status. */
  try(tool: 'kubectl' | 'helm', args: readonly string[], input?: string): Promise<Ran> {
    return run(this[tool], args, { env: this.#env, ...(input !== undefined && { input }) });
  }

  async run(tool: 'kubectl' | 'helm', args: readonly string[], input?: string): Promise<string> {
    const { code, stdout, stderr } = await this.try(tool, args, input);
    assert.equal(code, 0, `${tool} ${args.join(' ')}: ${stderr}${stdout}`);
    return stdout;
  }

  async json<T>(...args: readonly string[]): Promise<T> {
    return JSON.parse(await this.run('kubectl', [...args, '--output=json'])) as T;
  }

  apply(objects: readonly object[], ...args: readonly string[]): Promise<string> {
    const list = { apiVersion: 'v1', kind: 'List', items: objects };
    return this.run('kubectl', ['apply', '--server-side', '-f', '-', ...args], JSON.stringify(list));
  }

  /** Accepts only pods that conform to `restricted`; removed with the test. */
  async namespace(t: TestContext, name: string): Promise<void> {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await this.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }]);
    onEnd(
      t,
      name,
      async () => void (await this.run('kubectl', ['delete', 'namespace', name, '--wait=false'])),
    );
  }

  /** As documented; if the operator is already deployed, this is an upgrade. */
  async deployOperator(folder = deployFolder): Promise<void> {
    await this.run('kubectl', ['apply', '--server-side', '-k', folder]);
    const established = ['wait', '--for=condition=Established', 'crd/headgates.headgate.dev'];
    await this.run('kubectl', [...established, '--timeout=60s']);
  }

  /** A kubeconfig of the operator's account. */
  async accountConfig(): Promise<string> {
    const path = join(this.#folder, 'operator.kubeconfig');
    const config = JSON.parse(readFileSync(admin, 'utf8')) as Record<string, unknown>;
    const asked = ['create', 'token', 'headgate-operator', '--namespace=headgate-operator'];
    const token = (await this.run('kubectl', asked)).trim();
    const context = { cluster: 'test', user: 'test', namespace: 'headgate-operator' };
    const more = { users: [{ name: 'test', user: { token } }], contexts: [{ name: 'test', context }] };
    writeFileSync(path, JSON.stringify({ ...config, ...more }), { mode: 0o600 });
    return path;
  }

  async startOperator(t: TestContext, identity: string): Promise<OperatorProcess> {
    const env = {
      PATH: process.env['PATH'],
      HOME: this.#folder,
      KUBECONFIG: await this.accountConfig(),
      HEADGATE_ADMIN_PORT: '0',
      HEADGATE_OPERATOR_IDENTITY: identity,
      HEADGATE_OPERATOR_IMAGE: 'headgate.invalid/headgate:test',
    };
    const child = spawn(process.execPath, [cli, 'operator'], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
    const ended = once(child, 'exit');
    const kill = async (signal: NodeJS.Signals) => {
      child.kill(signal);
      await ended;
    };
    onEnd(t, identity, () => kill('SIGTERM'));
    await within(settleMs, async () => assert.match(log, /service\.ready/, log));
    return { log: () => log, kill };
  }

  /** The identity of the leading operator, from the lease. */
  async leader(): Promise<string> {
    const path = '{.spec.holderIdentity}';
    const args = ['get', 'lease', 'headgate-operator', '--namespace=headgate-operator'];
    return (await this.try('kubectl', [...args, `--output=jsonpath=${path}`])).stdout;
  }

  async condition(namespace: string, name: string, type: string): Promise<string> {
    const path = `{.status.conditions[?(@.type=="${type}")]['status','reason','message']}`;
    const args = ['get', 'headgate', name, `--namespace=${namespace}`, `--output=jsonpath=${path}`];
    return (await this.try('kubectl', args)).stdout;
  }

  /** The reasons and notes of a namespace's events. */
  async events(namespace: string): Promise<readonly string[]> {
    interface Told {
      readonly reason: string;
      readonly note?: string;
      readonly regarding: { readonly kind: string; readonly name: string };
    }
    const args = ['get', 'events.events.k8s.io', `--namespace=${namespace}`];
    const { items } = await this.json<{ items: readonly Told[] }>(...args);
    return items.map(
      ({ reason, note = '', regarding: { kind, name } }) => `${reason} ${kind} ${name}: ${note}`,
    );
  }
}

/** The requests of the operator's account since the control plane was started. */
export function auditOfOperator(): readonly AuditEvent[] {
  const lines = readFileSync(auditLog, 'utf8').split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as AuditEvent).filter(({ user }) => user.username === account);
}

export const isForbidden = ({ annotations }: AuditEvent) =>
  annotations?.['authorization.k8s.io/decision'] === 'forbid';
/** Tools identify themselves; the operator does not. */
export const isOfTool = ({ userAgent = '' }: AuditEvent) => /^(kubectl|helm)/i.test(userAgent);
