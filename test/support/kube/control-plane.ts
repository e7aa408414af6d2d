/**
 * A real control plane: etcd, kube-apiserver and kube-controller-manager, with certificates, RBAC and admission as in clusters, on ports and in
 * a folder of their own. Every request is written to an audit log. On loopback, without a node: pods are created, and stay Pending; or at the
 * address of a node (node.ts), whose pods can reach it. The processes end with this one, however it ends.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { openCluster } from '../../../src/operator/cluster.ts';
import type { Cluster } from '../../../src/operator/cluster.ts';
import { makeAuthority } from '../certificates.ts';
import type { Authority } from '../certificates.ts';
import { freePort } from '../proxy.ts';
import { findTool } from '../tools.ts';
import { within } from '../within.ts';
import { withUs } from './programs.ts';

export interface ControlPlane {
  /** For a user with all rights. */
  readonly kubeconfig: string;
  readonly auditLog: string;
  /** As that user. */
  readonly cluster: Cluster;
  /** The authority that everything here trusts. */
  readonly authority: Authority;
  /** The kubeconfig of a user, in openssl's notation: `name/O=group`. */
  kubeconfigOf(file: string, user: string): string;
  /**
   * Starts one more program, until the control plane ends; returns a function that throws, with the program's own message, if it ended too
   * early.
   */
  readonly start: Start;
  /** Kills everything at once. */
  kill(): void;
}

type Flags = Readonly<Record<string, string>>;
type Start = (name: string, command: string, flags: Flags, env?: NodeJS.ProcessEnv) => () => void;

/** The network of a future node. */
export interface NodeNetwork {
  readonly address: string;
  readonly pods: string;
}

const services = '10.96.0.0/16';

const startMs = 120_000;
const never = new AbortController().signal;

/** `folder` is its own, and `programs` the folder of findPrograms. */
export async function startControlPlane(
  folder: string,
  programs: string,
  network: NodeNetwork | null = null,
): Promise<ControlPlane> {
  const etcd = findTool('etcd');
  if (etcd === null) throw new Error('etcd is not installed (in Debian: etcd-server)');
  const path = (name: string) => join(folder, name);
  const running: ChildProcess[] = [];
  const kill = () => running.forEach((child) => child.kill('SIGKILL'));
  const start: Start = (name, command, flags, env = process.env) => {
    const log = openSync(path(`${name}.log`), 'w');
    const given = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
    const child = spawn(...withUs(command, given), { cwd: folder, env, stdio: ['ignore', log, log] });
    closeSync(log);
    running.push(child);
    return () => {
      if (child.exitCode === null && child.signalCode === null) return;
      throw new Error(`${name} has ended:\n${readFileSync(path(`${name}.log`), 'utf8').slice(-4_000)}`);
    };
  };
  const ca = makeAuthority(folder);
  const [etcdPort, peerPort, port] = [await freePort(), await freePort(), await freePort()];
  const address = network?.address ?? '127.0.0.1';
  const files = makeFiles(folder, ca, address, port);
  try {
    const etcdUrl = `https://127.0.0.1:${etcdPort}`;
    const checks = [
      start('etcd', etcd, {
        'data-dir': path('etcd'),
        'listen-client-urls': etcdUrl,
        'advertise-client-urls': etcdUrl,
        'listen-peer-urls': `http://127.0.0.1:${peerPort}`,
        'cert-file': files.server.cert,
        'key-file': files.server.key,
        'trusted-ca-file': ca.cert,
        'client-cert-auth': 'true',
        'unsafe-no-fsync': 'true',
      }),
      start('kube-apiserver', join(programs, 'kube-apiserver'), {
        'etcd-servers': etcdUrl,
        'etcd-cafile': ca.cert,
        'etcd-certfile': files.server.cert,
        'etcd-keyfile': files.server.key,
        'bind-address': address,
        ...(network === null
          ? // The address is not published; a loopback address is not accepted.
            { 'advertise-address': '192.0.2.1', 'endpoint-reconciler-type': 'none' }
          : {
              'advertise-address': address,
              'kubelet-client-certificate': files.admin.pair.cert,
              'kubelet-client-key': files.admin.pair.key,
              'kubelet-preferred-address-types': 'InternalIP',
            }),
        'secure-port': String(port),
        'tls-cert-file': files.server.cert,
        'tls-private-key-file': files.server.key,
        'client-ca-file': ca.cert,
        'anonymous-auth': 'false',
        'authorization-mode': 'Node,RBAC',
        // In addition to the default ones, which include PodSecurity and ResourceQuota.
        'enable-admission-plugins': 'NodeRestriction,OwnerReferencesPermissionEnforcement',
        'service-account-issuer': 'https://kubernetes.default.svc',
        'service-account-key-file': files.accounts,
        'service-account-signing-key-file': files.accounts,
        'service-cluster-ip-range': services,
        'audit-policy-file': files.auditPolicy,
        'audit-log-path': path('audit.log'),
      }),
    ];
    const config = new KubeConfig();
    config.loadFromFile(files.admin.path);
    const cluster = openCluster(config);
    const answers = (asked: string) =>
      within(startMs, async () => {
        for (const check of checks) check();
        await cluster.request({ method: 'GET', path: asked }, never);
      });
    await answers('/api/v1/namespaces/default');
    checks.push(
      start('kube-controller-manager', join(programs, 'kube-controller-manager'), {
        kubeconfig: files.kubeconfig('manager', 'system:kube-controller-manager').path,
        'bind-address': '127.0.0.1',
        'secure-port': '0',
        'leader-elect': 'false',
        'root-ca-file': ca.cert,
        'service-account-private-key-file': files.accounts,
        'use-service-account-credentials': 'true',
        ...(network !== null && { 'allocate-node-cidrs': 'true', 'cluster-cidr': network.pods }),
      }),
    );
    // The controllers are working.
    await answers('/api/v1/namespaces/default/serviceaccounts/default');
    return {
      kubeconfig: files.admin.path,
      auditLog: path('audit.log'),
      cluster,
      authority: ca,
      kubeconfigOf: (file, user) => files.kubeconfig(file, user).path,
      start,
      kill,
    };
  } catch (error) {
    kill();
    throw error;
  }
}

function makeFiles(folder: string, ca: Authority, address: string, port: number) {
  const path = (name: string) => join(folder, name);
  const base64 = (file: string) => readFileSync(file).toString('base64');
  const kubeconfig = (file: string, user: string) => {
    const { cert, key } = ca.issue(file, user);
    const server = `https://${address}:${port}`;
    const pair = { 'client-certificate-data': base64(cert), 'client-key-data': base64(key) };
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: [{ name: 'test', cluster: { server, 'certificate-authority-data': base64(ca.cert) } }],
      users: [{ name: 'test', user: pair }],
      contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
      'current-context': 'test',
    };
    writeFileSync(path(`${file}.kubeconfig`), JSON.stringify(config), { mode: 0o600 });
    return { path: path(`${file}.kubeconfig`), pair: { cert, key } };
  };
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  writeFileSync(path('accounts.key'), privateKey.export({ type: 'pkcs1', format: 'pem' }), { mode: 0o600 });
  const policy = { apiVersion: 'audit.k8s.io/v1', kind: 'Policy', omitStages: ['RequestReceived'] };
  writeFileSync(path('audit.json'), JSON.stringify({ ...policy, rules: [{ level: 'Metadata' }] }));
  return {
    // The second address is that of the Service `kubernetes`, at which pods reach it.
    server: ca.issue('server', 'server', { names: `IP:127.0.0.1,IP:10.96.0.1,IP:${address}` }),
    admin: kubeconfig('admin', 'admin/O=system:masters'),
    kubeconfig,
    accounts: path('accounts.key'),
    auditPolicy: path('audit.json'),
  };
}
