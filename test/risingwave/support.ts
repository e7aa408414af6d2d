/**
 * RisingWave for tests: the server of HEADGATE_RISINGWAVE_DSN, or a stand-in that enforces its restrictions in front of a PostgreSQL
 * (test/support/risingwave/stand-in.ts); and an events gateway in front of it.
 */
import { randomBytes } from 'node:crypto';
import type { TestContext } from 'node:test';
import { Client } from 'pg';
import { openPostgresEngine } from '../../src/engine/postgres.ts';
import { onEnd } from '../support/cleanup.ts';
import { openTestGateway } from '../support/gateway.ts';
import type { TestGateway } from '../support/gateway.ts';
import { testDatabase } from '../support/postgres.ts';
import { StandIn } from '../support/risingwave/stand-in.ts';
import type { StandInOptions } from '../support/risingwave/stand-in.ts';

const realDsn = process.env['HEADGATE_RISINGWAVE_DSN'] ?? '';

/** Why what only the stand-in shows is skipped; false: it is not. */
export const onStandInOnly: string | false = realDsn === '' ? false : 'the stand-in alone shows it';

export interface ServerUnderTest {
  readonly dsn: string;
  /** Throws where the tests run on a real one. */
  readonly standIn: StandIn;
  /** Straight to it. */
  readonly client: Client;
  /** A name that no other test has; its table is dropped. */
  readonly table: () => string;
}

export interface UnderTest extends ServerUnderTest {
  readonly gateway: TestGateway;
}

export async function openRisingWave(t: TestContext, options: StandInOptions = {}): Promise<UnderTest> {
  const server = await openServer(t, options);
  const engine = await openPostgresEngine({
    databaseUrl: server.dsn,
    observe: () => undefined,
    serverVersionMin: 100_000,
  });
  onEnd(t, 'engine', () => engine.close());
  const gateway = await openTestGateway(t, { engine });
  return Object.assign(server, { gateway });
}

export async function openServer(t: TestContext, options: StandInOptions = {}): Promise<ServerUnderTest> {
  const standIn = realDsn === '' ? await StandIn.open((await testDatabase(t)).clientConfig, options) : null;
  if (standIn !== null) onEnd(t, 'stand-in', () => standIn.close());
  const dsn = standIn?.dsn ?? realDsn;
  const client = new Client(dsn);
  client.on('error', () => undefined);
  await client.connect();
  onEnd(t, 'client', () => client.end());
  return {
    dsn,
    client,
    get standIn() {
      if (standIn === null) throw new Error('this is a real RisingWave');
      return standIn;
    },
    table: () => {
      const name = `hg_${randomBytes(6).toString('hex')}`;
      // That of the stand-in goes with its database.
      if (standIn === null)
        onEnd(t, name, async () => void (await client.query(`drop table if exists ${name}`)));
      return name;
    },
  };
}
