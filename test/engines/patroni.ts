/** Two PostgreSQL of Debian's under Patroni, with one etcd: a switchover that is asked for, and a leader that is killed. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { chmod, chown, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { onEnd } from '../support/cleanup.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { debianBin, serverUser } from '../support/server.ts';
import { freePort } from '../support/tls-server.ts';
import { within } from '../support/within.ts';

interface Node {
  readonly name: string;
  readonly port: number;
  readonly rest: number;
  readonly folder: string;
  readonly child: ChildProcess;
}

export interface Patroni {
  readonly url: string;
  /** The leader's port. */
  leader(): Promise<number>;
  switchover(): Promise<void>;
  /** Every process of the leader at once, and of its Patroni. */
  failover(): Promise<void>;
}

/** Seconds; 20 is the least that Patroni takes. */
const ttl = 20;

export async function openPatroni(t: TestContext, etcd: string, patroni: string): Promise<Patroni> {
  const folder = await temporaryFolder(t);
  const { uid, gid } = serverUser();
  const own = async (path: string) => {
    if (uid !== undefined) await chown(path, uid, gid ?? uid);
    return path;
  };
  await own(folder);
  const start = (program: string, args: readonly string[], place: string) => {
    const child = spawn(program, args, {
      ...serverUser(),
      cwd: folder,
      stdio: 'ignore',
      env: { PATH: `/usr/bin:/bin:${debianBin}`, HOME: folder, LC_ALL: 'C.UTF-8' },
    });
    const ended = once(child, 'exit');
    onEnd(t, program, async () => {
      child.kill('SIGKILL');
      killAll(serverProcesses(place));
      if (child.exitCode === null && child.signalCode === null) await ended;
    });
    return child;
  };
  const [clientPort, peerPort] = [await freePort(), await freePort()];
  const at = (port: number) => `http://127.0.0.1:${port}`;
  start(
    etcd,
    [
      '--name',
      'e',
      '--data-dir',
      join(folder, 'etcd'),
      '--log-level',
      'error',
      '--listen-client-urls',
      at(clientPort),
      '--advertise-client-urls',
      at(clientPort),
      '--listen-peer-urls',
      at(peerPort),
      '--initial-advertise-peer-urls',
      at(peerPort),
      '--initial-cluster',
      `e=${at(peerPort)}`,
    ],
    folder,
  );
  const isThere = async (url: string) => assert.equal((await fetch(url)).status, 200);
  await within(20_000, () => isThere(`${at(clientPort)}/health`));
  const nodes: Node[] = [];
  for (const name of ['a', 'b']) {
    const [port, rest] = [await freePort(), await freePort()];
    const place = join(folder, name);
    await mkdir(place);
    await own(place);
    await chmod(place, 0o700);
    const file = join(folder, `${name}.yml`);
    await writeFile(file, settings({ name, port, rest, folder: place, etcd: clientPort }));
    nodes.push({ name, port, rest, folder: place, child: start(patroni, [file], place) });
    // The second one copies the first.
    await within(60_000, () => isThere(`${at(rest)}/health`));
  }
  const leaderOf = async (): Promise<Node> => {
    for (const node of nodes) {
      const answer = await fetch(`${at(node.rest)}/primary`).catch(() => null);
      if (answer?.status === 200) return node;
    }
    throw new Error('no node is the leader');
  };
  const synchronous = () =>
    within(60_000, async () => {
      const leader = await leaderOf();
      const other = nodes.find((node) => node !== leader);
      await isThere(`${at(other?.rest ?? 0)}/synchronous`);
    });
  await synchronous();
  return {
    url: `postgresql://root:engines@${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}/postgres`,
    leader: async () => (await within(60_000, leaderOf)).port,
    switchover: async () => {
      await synchronous();
      const leader = await leaderOf();
      const answer = await fetch(`${at(leader.rest)}/switchover`, {
        method: 'POST',
        body: JSON.stringify({ leader: leader.name, candidate: leader.name === 'a' ? 'b' : 'a' }),
      });
      assert.equal(answer.status, 200, await answer.text());
      await synchronous();
    },
    failover: async () => {
      await synchronous();
      const { child, folder: place } = await leaderOf();
      child.kill('SIGKILL');
      killAll(serverProcesses(place));
    },
  };
}

function killAll(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
  }
}

/** The server that a Patroni has started is nobody's child, and says in its pid file which it is. */
function serverProcesses(folder: string): readonly number[] {
  try {
    const pid = Number(readFileSync(join(folder, 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ');
    return [pid, ...children.map(Number)].filter((it) => it > 1);
  } catch {
    return [];
  }
}

function settings(it: {
  readonly name: string;
  readonly port: number;
  readonly rest: number;
  readonly folder: string;
  readonly etcd: number;
}): string {
  return `scope: engines
name: ${it.name}
restapi: { listen: '127.0.0.1:${it.rest}', connect_address: '127.0.0.1:${it.rest}' }
etcd3: { hosts: ['127.0.0.1:${it.etcd}'] }
bootstrap:
  dcs: { ttl: ${ttl}, loop_wait: 2, retry_timeout: 3, synchronous_mode: true, postgresql: { use_pg_rewind: false } }
  initdb: [{ encoding: UTF8 }, { locale: C }]
postgresql:
  listen: '127.0.0.1:${it.port}'
  connect_address: '127.0.0.1:${it.port}'
  data_dir: '${join(it.folder, 'data')}'
  bin_dir: '${debianBin}'
  pgpass: '${join(it.folder, 'pgpass')}'
  authentication:
    superuser: { username: root, password: engines }
    replication: { username: replicator, password: engines }
  parameters: { unix_socket_directories: '${it.folder}', fsync: 'off' }
  pg_hba: ['local all all trust', 'host all all 127.0.0.1/32 scram-sha-256', 'host replication all 127.0.0.1/32 scram-sha-256']
`;
}
