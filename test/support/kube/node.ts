/**
 * A node for the control plane of control-plane.ts: containerd, kubelet, kube-proxy, kube-scheduler and a cluster DNS, in namespaces that
 * scripts/test-node.mjs has created (mounts, network, processes, control groups). Mounts, routes and filters made here belong to them, and
 * disappear with them; nothing of the machine itself is changed.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { Resolver } from 'node:dns/promises';
import { mkdirSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { within } from '../within.ts';
import type { ControlPlane, NodeNetwork } from './control-plane.ts';

/** The parts of a node, as found or made by scripts/test-node.mjs. */
export interface NodeParts {
  /** The folder of Kubernetes' programs. */
  readonly kubernetes: string;
  /** A folder with unpacked packages of Debian. */
  readonly debian: string;
  readonly coredns: string;
  /** Archives of images. */
  readonly images: readonly string[];
  /** Hierarchies of control groups, by folder, with their mount options. */
  readonly hierarchies: Readonly<Record<string, string>>;
}

/** This network has no other members. */
export const network: NodeNetwork = { address: '10.95.0.1', pods: '10.97.0.0/16' };
const podsHere = '10.97.0.0/24';
export const nodeName = 'node-1';
const readyMs = 120_000;

function must(command: string, ...args: readonly string[]): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0)
    throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? `${stdout}${stderr}`.trim()}`);
}

const kernelWanted = {
  'kernel/keys/root_maxbytes': 25_000_000,
  'kernel/keys/root_maxkeys': 1_000_000,
  'kernel/panic': 10,
  'kernel/panic_on_oops': 1,
  'vm/overcommit_memory': 1,
  'vm/panic_on_oom': 0,
};

/** The machine as the node's programs see it: its address, folders for their exclusive use, control groups below ours. */
export function prepareMachine({ hierarchies }: NodeParts): void {
  must('mount', '--make-rshared', '/');
  must('mount', '-t', 'sysfs', 'sysfs', '/sys');
  const groups = '/sys/fs/cgroup';
  must('mount', '-t', 'tmpfs', 'tmpfs', groups);
  for (const [name, options] of Object.entries(hierarchies)) {
    mkdirSync(join(groups, name));
    must('mount', '-t', 'cgroup', '-o', options, 'cgroup', join(groups, name));
  }
  for (const folder of ['/dev/shm', '/run', '/var/lib', '/var/log'])
    must('mount', '-t', 'tmpfs', 'tmpfs', folder);
  // The kubelet sets these for the whole machine; here it reads that they are already set.
  for (const [name, value] of Object.entries(kernelWanted)) {
    const file = join('/run', name.replaceAll('/', '.'));
    writeFileSync(file, `${value}\n`);
    must('mount', '--bind', file, join('/proc/sys', name));
  }
  must('hostname', nodeName);
  must('ip', 'link', 'set', 'lo', 'up');
  // An interface that is up, but not connected to anything.
  must('ip', 'link', 'add', 'node0', 'type', 'veth', 'peer', 'name', 'node1');
  must('ip', 'address', 'add', `${network.address}/24`, 'dev', 'node0');
  for (const name of ['node0', 'node1']) must('ip', 'link', 'set', name, 'up');
  must('ip', 'route', 'add', 'default', 'dev', 'node0');
  for (const name of ['ipv4/ip_forward', 'bridge/bridge-nf-call-iptables'])
    writeFileSync(join('/proc/sys/net', name), '1');
}

/** `folder` is that of the control plane. Resolves once the node is ready, and names can be resolved. */
export async function startNode(folder: string, plane: ControlPlane, parts: NodeParts): Promise<void> {
  const path = (name: string) => join(folder, name);
  const program = (name: string) => join(parts.debian, name);
  const write = (name: string, text: string) => {
    writeFileSync(path(name), text);
    return path(name);
  };
  const socket = '/run/containerd/containerd.sock';
  const searched = [join(parts.debian, 'usr/bin'), join(parts.debian, 'usr/sbin'), process.env['PATH']];
  const env = { ...process.env, PATH: searched.join(delimiter) };
  mkdirSync(path('cni'));
  write('cni/pods.conflist', JSON.stringify(podNetwork));
  const checks = [
    plane.start(
      'containerd',
      program('usr/bin/containerd'),
      { config: write('containerd.toml', containerdConfig(folder, parts, socket)) },
      env,
    ),
  ];
  const answers = (command: string, ...args: readonly string[]) =>
    within(readyMs, async () => {
      for (const check of checks) check();
      must(command, ...args);
    });
  const ctr = ['--address', socket, '--namespace', 'k8s.io', 'images'];
  await answers(program('usr/bin/ctr'), ...ctr, 'list');
  for (const image of parts.images) must(program('usr/bin/ctr'), ...ctr, 'import', '--no-unpack', image);
  checks.push(
    plane.start(
      'kubelet',
      join(parts.kubernetes, 'kubelet'),
      {
        config: write('kubelet.json', JSON.stringify(kubeletConfig(folder, plane, socket))),
        kubeconfig: plane.kubeconfigOf('kubelet', `system:node:${nodeName}/O=system:nodes`),
        'hostname-override': nodeName,
        'node-ip': network.address,
        'root-dir': path('kubelet'),
      },
      env,
    ),
    plane.start('kube-scheduler', join(parts.kubernetes, 'kube-scheduler'), {
      kubeconfig: plane.kubeconfigOf('scheduler', 'system:kube-scheduler'),
      'leader-elect': 'false',
      'secure-port': '0',
    }),
    plane.start('kube-proxy', join(parts.kubernetes, 'kube-proxy'), {
      kubeconfig: plane.kubeconfigOf('proxy', 'system:kube-proxy'),
      'hostname-override': nodeName,
      'proxy-mode': 'iptables',
      'cluster-cidr': network.pods,
      // These belong to the machine.
      'conntrack-max-per-core': '0',
      'conntrack-tcp-timeout-established': '0s',
      'conntrack-tcp-timeout-close-wait': '0s',
    }),
    plane.start('coredns', parts.coredns, { conf: write('Corefile', corefile(plane.kubeconfig)) }),
  );
  const names = new Resolver();
  names.setServers([network.address]);
  await within(readyMs, async () => {
    for (const check of checks) check();
    const path = `/api/v1/nodes/${nodeName}`;
    const found = await plane.cluster.request({ method: 'GET', path }, AbortSignal.timeout(readyMs));
    assert.match(
      JSON.stringify(found['status']),
      /"type":"Ready","status":"True"|"status":"True","type":"Ready"/,
    );
    await names.resolve4('kubernetes.default.svc.cluster.local');
  });
}

const podNetwork = {
  cniVersion: '0.4.0',
  name: 'pods',
  plugins: [
    {
      type: 'bridge',
      bridge: 'cni0',
      isGateway: true,
      hairpinMode: true,
      ipam: { type: 'host-local', subnet: podsHere, routes: [{ dst: '0.0.0.0/0' }] },
    },
  ],
};

const containerdConfig = (folder: string, { debian }: NodeParts, socket: string) => `version = 2
root = ${JSON.stringify(join(folder, 'containerd'))}
state = "/run/containerd"
[grpc]
  address = "${socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd-opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Root of a machine in a machine may not make a process less likely to be ended for want of memory.
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = ${JSON.stringify(join(debian, 'usr/lib/cni'))}
  conf_dir = ${JSON.stringify(join(folder, 'cni'))}
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
`;

const kubeletConfig = (folder: string, { authority }: ControlPlane, socket: string) => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  authentication: {
    anonymous: { enabled: false },
    webhook: { enabled: true },
    x509: { clientCAFile: authority.cert },
  },
  authorization: { mode: 'Webhook' },
  containerRuntimeEndpoint: `unix://${socket}`,
  cgroupDriver: 'cgroupfs',
  failCgroupV1: false,
  failSwapOn: false,
  clusterDomain: 'cluster.local',
  clusterDNS: [network.address],
  resolvConf: '',
  podLogsDir: join(folder, 'pods'),
  // These tests are not about how full the machine's disk is.
  evictionHard: { 'nodefs.available': '100Mi', 'imagefs.available': '100Mi', 'memory.available': '50Mi' },
  imageGCHighThresholdPercent: 100,
});

const corefile = (kubeconfig: string) => `.:53 {
  bind ${network.address}
  errors
  kubernetes cluster.local {
    kubeconfig ${kubeconfig}
  }
}
`;
