/**
 * A process that opens the embedded engine and, if asked, writes numbered rows through it. Run by the crash tests,
 * which kill it. Prints lines of JSON: observations as they occur, `{"acked": n}` after each COMMIT.
 *
 *   node engine-child.js '{"dataDir": …, "write": true}'
 */
import { Client, type ClientConfig } from 'pg';
import { type EmbeddedOptions, openEmbeddedEngine } from '../../src/engine/embedded.ts';

const { write, ...options } = JSON.parse(process.argv[2] ?? '{}') as Omit<EmbeddedOptions, 'observe'> & {
  write?: boolean;
};
const say = (line: object): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

const startedAt = performance.now();
try {
  const engine = await openEmbeddedEngine({ ...options, observe: say });
  process.once('SIGTERM', () => void engine.close().then(() => process.exit(0)));
  say({
    opened: performance.now() - startedAt,
    unavailable: engine.unavailable,
    endpoint: engine.endpoint(),
  });
  if (write === true) await writeRows(engine.clientConfig('dev'));
} catch (error) {
  say({ failed: (error as Error).name, message: (error as Error).message });
  process.exit(1);
}

async function writeRows(config: ClientConfig): Promise<void> {
  const client = new Client(config);
  await client.connect();
  await client.query('create table if not exists written (n bigint)');
  const { rows } = await client.query<{ n: string }>('select coalesce(max(n), 0) as n from written');
  for (let n = Number(rows[0]?.n) + 1; ; n++) {
    await client.query('insert into written values ($1)', [n]);
    say({ acked: n });
  }
}
