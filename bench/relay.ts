/**
 * What the SQL door costs: pgbench (select only) against PostgreSQL itself and through the door, alternating in one
 * run, so that both meet the same machine. Prints the median of each and their ratio.
 *
 *   node dist/bench/relay.js [seconds per run] [rounds]
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { promisify } from 'node:util';
import { openTestDoor } from '../test/support/wire-door.ts';
import { startWirePostgres } from '../test/support/wire-postgres.ts';

const execute = promisify(execFile);
const seconds = Number(process.argv[2] ?? 3);
const rounds = Number(process.argv[3] ?? 3);
const installed = '/usr/lib/postgresql/15/bin/pgbench';
const pgbench = existsSync(installed) ? installed : 'pgbench';

interface Path {
  readonly name: string;
  readonly args: readonly string[];
}

async function measure(path: Path, protocol: string, clients: number): Promise<{ tps: number; us: number }> {
  const args = ['-n', '-S', '-M', protocol, '-c', String(clients), '-j', '1', '-T', String(seconds)];
  const { stdout } = await execute(pgbench, [...path.args, ...args, '-U', 'root', 'dev']);
  const tps = Number(/tps = ([\d.]+)/.exec(stdout)?.[1]);
  const ms = Number(/latency average = ([\d.]+) ms/.exec(stdout)?.[1]);
  return { tps, us: ms * 1000 };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!;

/** PostgreSQL cannot pick a port by itself. */
const tcpPort = await new Promise<number>((resolve) => {
  const probe = createServer().listen(0, '127.0.0.1', () => {
    const address = probe.address();
    probe.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
  });
});
const server = await startWirePostgres('listen_addresses=127.0.0.1', `port=${tcpPort}`);
const door = await openTestDoor({ kind: 'unix', path: server.path });
try {
  const direct: Path[] = [
    { name: 'unix', args: ['-h', server.folder, '-p', String(tcpPort)] },
    { name: 'tcp', args: ['-h', '127.0.0.1', '-p', String(tcpPort)] },
  ];
  const through: Path = { name: 'door', args: ['-h', '127.0.0.1', '-p', String(door.port)] };
  const fill = ['-i', '-q', '-s', '10', '-U', 'root', 'dev'];
  await execute(pgbench, [...through.args, ...fill]);
  console.log(`pgbench -S, scale 10, ${seconds} s x ${rounds}, door: tcp in, unix out; µs (tps)\n`);
  console.log('| protocol | clients | direct unix | direct tcp | door | door/tcp tps |');
  console.log('|---|---|---|---|---|---|');
  for (const protocol of ['simple', 'extended', 'prepared']) {
    for (const clients of [1, 8]) {
      const paths = [...direct, through];
      const results = new Map(paths.map((path) => [path, [] as { tps: number; us: number }[]]));
      for (let round = 0; round < rounds; round += 1) {
        for (const path of paths) results.get(path)!.push(await measure(path, protocol, clients));
      }
      const cells = paths.map((path) => {
        const runs = results.get(path)!;
        return { tps: median(runs.map((r) => r.tps)), us: median(runs.map((r) => r.us)) };
      });
      const shown = cells.map(({ tps, us }) => `${us.toFixed(0)} (${(tps / 1000).toFixed(1)}k)`);
      const ratio = (cells[2]!.tps / cells[1]!.tps).toFixed(2);
      console.log(`| ${protocol} | ${clients} | ${shown.join(' | ')} | ${ratio} |`);
    }
  }
} finally {
  await door.door.close();
  await server.close();
}
