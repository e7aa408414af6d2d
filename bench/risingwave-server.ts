/**
 * The stand-in for RisingWave in a process of its own, in front of the PostgreSQL given by its first argument (a client's configuration as JSON).
 * Prints its port.
 */
import type { ClientConfig } from 'pg';
import { StandIn } from '../test/support/risingwave/stand-in.ts';

const standIn = await StandIn.open(JSON.parse(process.argv[2] ?? '{}') as ClientConfig);
process.stdout.write(`${standIn.port}\n`);
process.once('SIGTERM', () => void standIn.close().then(() => process.exit(0)));
