/**
 * The cost of the SQL door: pgbench (select only), `\copy` of a million rows and the start of a psql, directly against
 * a server and through Headgate, in turns. The server also listens on TCP, which Headgate's own does not, so that TCP
 * is compared with TCP; the door itself uses the Unix socket.
 */
import { execFile, spawnSync } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { startServer } from '../test/support/server.ts';
import { pgbench } from './contestants.ts';
import { freePort } from './processes.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import type { Bench, Effort } from './report.ts';
import { startService } from './service.ts';
import { median } from './statistics.ts';

const execute = promisify(execFile);

interface Paths {
  readonly unix: readonly string[];
  readonly tcp: readonly string[];
  readonly door: readonly string[];
}
type Path = keyof Paths;
const order = ['unix', 'tcp', 'door'] as const;

async function eachInTurn<R extends { readonly perSecond: number }>(
  rounds: number,
  label: string,
  run: (path: Path) => Promise<R>,
): Promise<readonly Readonly<Record<Path, R>>[]> {
  return inTurns(rounds, label, {
    unix: () => run('unix'),
    tcp: () => run('tcp'),
    door: () => run('door'),
  });
}

async function selects(paths: Paths, { rounds, seconds }: Effort): Promise<{ text: string; relay: number }> {
  const run = (protocol: string, clients: number) => async (path: Path) => {
    const args = ['-n', '-S', '-M', protocol, '-c', String(clients), '-j', '1', '-T', String(seconds)];
    const { stdout } = await execute(pgbench, [...args, ...paths[path]]);
    const perSecond = Number(/tps = ([\d.]+)/.exec(stdout)?.[1]);
    return { perSecond, us: Number(/latency average = ([\d.]+) ms/.exec(stdout)?.[1]) * 1_000 };
  };
  const lines: (string | number)[][] = [];
  let relay = Number.NaN;
  for (const protocol of ['simple', 'extended', 'prepared']) {
    for (const clients of protocol === 'prepared' ? [1, 8] : [8]) {
      const label = `pgbench -S, ${protocol}, ${clients} clients`;
      const turns = await eachInTurn(rounds, label, run(protocol, clients));
      const ratios = turns.map((turn) => turn.door.perSecond / turn.tcp.perSecond);
      if (protocol === 'prepared' && clients === 8) relay = median(ratios);
      const cell = (path: Path) =>
        `${median(turns.map((turn) => turn[path].us)).toFixed(0)} (${(median(turns.map((turn) => turn[path].perSecond)) / 1_000).toFixed(1)}k)`;
      lines.push([protocol, clients, ...order.map(cell), spread(ratios)]);
    }
  }
  const head = ['protocol', 'clients', 'direct unix', 'direct tcp', 'door', 'door / tcp (min–max)'];
  const text = `pgbench, select only, scale 10, one thread: latency in µs (transactions a second).\n\n${table(head, lines, 1)}`;
  return { text, relay };
}

const rows = 1_000_000;

function* copied(): Generator<string> {
  for (let i = 0; i < rows; i += 1_000) {
    const line = (n: number) => `${n}\tcustomer ${n}\t{"action": "opened", "number": ${n}, "ok": true}\n`;
    yield Array.from({ length: 1_000 }, (_, k) => line(i + k)).join('');
  }
}

async function copies(paths: Paths, rounds: number): Promise<{ text: string; copy: number }> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-bench-copy-'));
  try {
    const file = join(folder, 'rows');
    await pipeline(Readable.from(copied()), createWriteStream(file));
    const psql = (path: Path, command: string) =>
      execute('psql', ['-X', '-q', ...paths[path], '-c', command]);
    await psql('unix', 'CREATE TABLE copied (id INT, name TEXT, data JSONB)');
    const timed = (statement: string) => async (path: Path) => {
      await psql('unix', statement.includes(' from ') ? 'TRUNCATE copied' : 'SELECT');
      await psql('unix', 'CHECKPOINT');
      const started = performance.now();
      await psql(path, statement);
      return { perSecond: (rows * 1_000) / (performance.now() - started) };
    };
    const lines: (string | number)[][] = [];
    let copy = Number.NaN;
    for (const statement of [`\\copy copied from '${file}'`, `\\copy copied to '/dev/null'`]) {
      const into = statement.includes(' from ');
      const turns = await eachInTurn(rounds, into ? '\\copy from' : '\\copy to', timed(statement));
      const ratios = turns.map((turn) => turn.door.perSecond / turn.tcp.perSecond);
      if (into) copy = median(ratios);
      const cell = (path: Path) => median(turns.map((turn) => turn[path].perSecond)).toFixed(0);
      lines.push([into ? '`\\copy … from`' : '`\\copy … to`', ...order.map(cell), spread(ratios)]);
    }
    const head = [
      '1,000,000 rows, psql',
      'direct unix, rows/s',
      'direct tcp',
      'door',
      'door / tcp (min–max)',
    ];
    return { text: table(head, lines, 1), copy };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** From the start of a psql to its end, with one small statement. */
async function sessions(paths: Paths, rounds: number): Promise<string> {
  const many = 20;
  const run = async (path: Path) => {
    const started = performance.now();
    for (let i = 0; i < many; i++) await execute('psql', ['-X', '-q', '-A', '-t', ...paths[path], '-c', 'SELECT 1']);
    return { perSecond: (many * 1_000) / (performance.now() - started) };
  }; // prettier-ignore
  const turns = await eachInTurn(rounds, 'psql', run);
  const ms = (path: Path) => (1_000 / median(turns.map((turn) => turn[path].perSecond))).toFixed(1);
  return `A psql that connects, runs \`SELECT 1\` and ends: ${ms('unix')} ms by the Unix socket, ${ms('tcp')} ms by TCP, ${ms('door')} ms through the door.`;
}

export const sqlDoor: Bench = {
  name: 'sql-door',
  run: async ({ rounds, seconds }) => {
    const effort = { rounds, seconds: Math.min(seconds, 3) };
    for (const command of [pgbench, 'psql'])
      if (spawnSync(command, ['--version']).status !== 0) throw new Error(`${command} is not installed`);
    const port = await freePort();
    const settings = ['listen_addresses=127.0.0.1', `port=${port}`, 'max_connections=200', 'fsync=on', 'max_wal_size=4GB'];
    const server = await startServer(undefined, settings);
    try {
      const dsn = `postgresql://root@/postgres?host=${encodeURIComponent(server.socketDir)}&port=${port}`;
      const service = await startService({ flags: [`--database-url=${dsn}`], database: 'postgres' });
      try {
        const to = (host: string, at: number) => ['-h', host, '-p', String(at), '-U', 'root', 'postgres'];
        const paths: Paths = {
          unix: to(server.socketDir, port),
          tcp: to('127.0.0.1', port),
          door: to('127.0.0.1', service.ports.sql.port),
        };
        await execute(pgbench, ['-i', '-q', '-s', '10', ...paths.door]);
        const { text, relay } = await selects(paths, effort);
        const copied = await copies(paths, effort.rounds);
        const started = await sessions(paths, effort.rounds);
        return {
          text: [
            `${stamp()}; ${effort.rounds} rounds of ${effort.seconds} s in turns after one to warm up; medians. The door takes TCP and goes on by the Unix socket.`,
            text,
            copied.text,
            started,
          ].join('\n\n'),
          reached: { relay, copy: copied.copy },
        };
      } finally {
        await service.stop();
      }
    } finally {
      await server.close();
    }
  },
}; // prettier-ignore
