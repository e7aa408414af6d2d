/** A spool as left by a killed Headgate, written without one: larger than senders could fill in a test's time. */
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Client } from 'pg';
import { loadMasterKeys } from '../../src/secrets/key-ring.ts';
import { DatabaseSpool } from '../../src/spool/database-spool.ts';
import { realFiles } from '../../src/spool/files.ts';
import { encodeRequest } from '../../src/spool/kept-request.ts';
import { limits } from '../../src/config/limits.ts';

export interface Filling {
  /** The data directory of the Headgate that will hand it over; it already contains its master key. */
  readonly dataDir: string;
  /** In the schema public of the client's database. */
  readonly table: string;
  readonly client: Client;
  /** How many to keep at once. */
  readonly together: number;
  readonly body: (n: number) => Buffer;
  /** Continues while this returns true. */
  readonly more: (requests: number, bytes: number) => boolean;
}

/** Returns the number of requests in it. */
export async function fillSpool({ dataDir, table, client, together, body, more }: Filling): Promise<number> {
  const { rows } = await client.query<{ home: string; oid: number; database: string }>(
    `select headgate.home() as home, '${table}'::regclass::oid::int8::int4 as oid, current_database() as database`,
  );
  const { home = '', oid = 0, database = '' } = rows[0] ?? {};
  const kept = await DatabaseSpool.open({
    database,
    folder: join(dataDir, 'spool', database),
    files: realFiles,
    ring: loadMasterKeys(join(dataDir, 'master.key')),
    segmentBytes: limits.spoolSegmentBytes,
    bytesLeft: () => Infinity,
    disk: { bytesMax: Infinity, ownersOf: () => new Map(), shares: () => [] },
    random: randomBytes,
    clock: () => performance.now(),
    nowMs: Date.now,
    ageMsMax: Infinity,
    observe: (observation) => {
      throw new Error(JSON.stringify(observation));
    },
  });
  kept.home = home;
  const gate = kept.gateOf(oid);
  gate.fill(Date.now());
  const requestTarget = `/webhook/${database}/public/${table}`;
  const head = { method: 'POST', requestTarget, rawHeaders: [], remoteAddress: '127.0.0.1' };
  const named = { database, schema: 'public', table, oid };
  let n = 0;
  while (more(n, kept.bytes)) {
    const payloads = Array.from({ length: together }, () =>
      encodeRequest({ ...head, arrivedAtMs: Date.now() }, body(n++)),
    );
    await Promise.all(payloads.map((payload) => kept.append(named, gate, payload)));
  }
  await kept.close();
  return n;
}
