/**
 * `headgate spool check | dump | drain <dir>`: for a folder of spooled webhooks whose Headgate no longer exists. Takes a
 * folder and Settings; prints what it finds; throws a one-line error if it cannot finish. `check` and `dump` change nothing
 * and need no database. Part of the composition root.
 */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { PlainError } from '../kit/plain-error.ts';
import { shownJson } from '../kit/terminal.ts';
import { realFiles } from '../spool/files.ts';
import { inspectSpools } from '../spool/inspect.ts';
import type { FoundRequest, SegmentReport } from '../spool/inspect.ts';
import type { Observe } from '../observe/observations.ts';
import type { Settings } from '../config/settings.ts';
import { startService } from './start.ts';
import { masterKeys } from '../secrets/key-ring.ts';

export class SpoolCommandError extends PlainError {
  override readonly name = 'SpoolCommandError';
}

/** Returns true if everything can be read. */
export async function checkSpool(
  folder: string,
  settings: Settings,
  say: (line: string) => void,
): Promise<boolean> {
  const { segments, quarantined } = await inspected(folder, settings);
  let whole = quarantined.length === 0;
  for (const report of segments) {
    const { path, bytes, header, requests, isUnused } = report;
    const unused = header === null && isUnused ? ', nothing was written to it' : '';
    const troubles = troublesOf(report).map((trouble) => `, ${trouble}`);
    whole &&= troubles.length === 0;
    say(`${path}: ${requests} requests, ${bytes ?? 0} bytes${unused}${troubles.join('')}`);
  }
  for (const path of quarantined) say(`${path}: put aside earlier, because it could not be read`);
  const sum = segments.reduce((all, { requests }) => all + requests, 0);
  say(
    `${sum} requests in ${segments.length} files; some may already be in the database, but share a file with others`,
  );
  return whole;
}

function troublesOf({ bytes, made, header, isUnused, damaged, opens }: SegmentReport): readonly string[] {
  if (bytes === null) return [`the file is missing, and had ${made} bytes`];
  return [
    ...(made !== null && bytes < made ? [`the file was cut, and had ${made} bytes`] : []),
    ...(header === null && !isUnused ? ['its header cannot be read'] : []),
    ...(damaged > 0 ? [`${damaged} bytes cannot be read`] : []),
    ...(header !== null && !opens ? ['the master key that sealed it is not available'] : []),
  ];
}

/** Rejects with SpoolCommandError if there is no such folder. */
async function inspected(folder: string, settings: Settings, found?: (request: FoundRequest) => void) {
  const path = resolve(folder);
  const isFolder = await stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
  if (!isFolder) throw new SpoolCommandError(`there is no directory ${path}`);
  return inspectSpools(realFiles, path, masterKeys(settings), found);
}

/** Prints requests as lines of JSON, whether they have arrived or not. */
export async function dumpSpool(
  folder: string,
  settings: Settings,
  say: (line: string) => void,
): Promise<void> {
  const line = ({ sequence, oid, table, head, body }: FoundRequest) => {
    const { method, requestTarget, rawHeaders, arrivedAtMs, remoteAddress } = head;
    const name =
      table === null ? { oid } : { database: table.database, schema: table.schema, table: table.table };
    say(
      shownJson(
        JSON.stringify({
          ...name,
          sequence: String(sequence),
          received_at: new Date(arrivedAtMs).toISOString(),
          remote_address: remoteAddress,
          method,
          target: requestTarget,
          headers: rawHeaders,
          body_base64: body.toString('base64'),
        }),
      ),
    );
  };
  const { segments } = await inspected(folder, settings, line);
  if (segments.some(({ header, opens }) => header !== null && !opens))
    throw new SpoolCommandError('the master key that sealed some files is not available');
}

/** No client is meant to connect. */
const loopback = {
  sqlPort: 0,
  gatewayPort: 0,
  adminPort: 0,
  sqlHost: '127.0.0.1',
  gatewayHost: '127.0.0.1',
  adminHost: '127.0.0.1',
};

/** Hands everything over to the database of the settings, then stops; waits as long as that cannot be reached. */
export async function drainSpool(folder: string, settings: Settings, log: Observe): Promise<void> {
  const service = await startService(
    {
      ...settings,
      spoolDir: resolve(folder),
      listenEnabled: false,
      ...loopback,
    },
    log,
  );
  try {
    const { port } = service.doors.admin;
    for (;;) {
      const text = await (await fetch(`http://127.0.0.1:${port}/readyz`)).text();
      const { spool } = JSON.parse(text) as { spool?: { tables: number; held: number } };
      if (spool === undefined) throw new SpoolCommandError(`nothing is known of the folder ${folder}`);
      if (spool.held > 0)
        throw new SpoolCommandError(
          'some requests were kept for another database, or the master key that sealed them is not available',
        );
      if (spool.tables === 0) return;
      await delay(200);
    }
  } finally {
    await service.stop('done');
  }
}
