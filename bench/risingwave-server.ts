/** The stand-in for RisingWave in a process of its own, in front of the PostgreSQL of its first argument (JSON of a client's configuration). Prints its port. */
import type { ClientConfig } from 'pg';
import { StandIn } from '../test/support/risingwave/stand-in.ts';

const standIn = await StandIn.open(JSON.parse(process.argv[2] ?? '{}') as ClientConfig);
process.stdout.write(`${standIn.port}\n`);
process.once('SIGTERM', () => void standIn.close().then(() => process.exit(0)));
