/**
 * `headgate doctor`: reports problems of this machine, its settings and its tables, one line each. Returns the exit status: 1 if
 * something has to be fixed; things that only deserve a look are reported, too. Changes nothing, apart from a temporary file of 8 KiB in the data directory.
 */
import { once } from 'node:events';
import { connect, isIP } from 'node:net';
import { hostname } from 'node:os';
import { connect as connectTls } from 'node:tls';
import { createPost } from '../access/outgoing.ts';
import { reachable, hostOf } from '../kit/address.ts';
import { PlainError } from '../kit/plain-error.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { trialMessage } from '../alerts/message.ts';
import { problemsOf } from '../host/check-settings.ts';
import { diskSpace, flushTime } from '../host/disk-space.ts';
import { doorsOf, takenPorts } from '../host/ports.ts';
import { jsonLine, painted, plain } from '../kit/terminal.ts';
import { doctorPath } from '../observe/tail.ts';
import type { CommandIo, Style } from '../kit/terminal.ts';
import { utcText, within } from './session.ts';
import type { CommandSession } from './session.ts';
import { portsAt } from './find-headgate.ts';
import type { DoorAt, Where } from './find-headgate.ts';

type DoctorVerdict = 'ok' | 'look' | 'wrong';

interface DoctorFinding {
  readonly check: string;
  readonly verdict: DoctorVerdict;
  readonly says: string;
}

interface About {
  readonly version: string;
  readonly local: boolean;
  readonly json: boolean;
  /** Send a test message. */
  readonly alert: boolean;
}

/** `local`: the Headgate is on this machine; its files and ports are checked. */
export async function doctorCommand(
  where: Where | null,
  settings: Settings,
  { version, local, json, alert }: About,
  io: CommandIo,
): Promise<number> {
  const findings: DoctorFinding[] = [
    found('versions', 'ok', `Headgate ${version}, Node ${process.versions.node}`),
  ];
  if (local) {
    findings.push(...(await settingsFindings(settings)), ...(await diskFindings(settings.dataDir, io)));
    findings.push(...(await portFindings(settings, where !== null)));
  }
  if (where === null)
    findings.push(
      found('headgate', 'wrong', `no Headgate runs on ${settings.dataDir}: start it with headgate start`),
    );
  else {
    findings.push(...(await databaseFindings(where, io)));
    if (where.url !== null) findings.push(await doorFinding('webhooks', where.url));
  }
  if (alert) findings.push(await alertFinding(settings, version, io));
  if (settings.publicUrl !== null) findings.push(...(await publicFindings(settings.publicUrl)));
  for (const finding of findings)
    io.print(
      json
        ? jsonLine(finding)
        : `${painted(io, styles[finding.verdict], marks[finding.verdict])}  ${finding.check.padEnd(11)}  ${plain(finding.says)}\n`,
    );
  return findings.some(({ verdict }) => verdict === 'wrong') ? 1 : 0;
}

const styles: Readonly<Record<DoctorVerdict, Style>> = { ok: 'good', look: 'warn', wrong: 'bad' };
const marks: Readonly<Record<DoctorVerdict, string>> = { ok: 'ok   ', look: 'look ', wrong: 'WRONG' };
const found = (check: string, verdict: DoctorVerdict, says: string): DoctorFinding => ({
  check,
  verdict,
  says,
});

async function settingsFindings(settings: Settings): Promise<DoctorFinding[]> {
  const problems = await problemsOf(settings);
  if (problems.length === 0) return [found('settings', 'ok', 'start would accept them')];
  return problems.map((problem) => found('settings', 'wrong', problem));
}

/** If Headgate runs here, whether each door can be reached; if not, whether each port could be opened. */
async function portFindings(settings: Settings, runs: boolean): Promise<DoctorFinding[]> {
  if (!runs) {
    const doors = doorsOf(settings, ['listen', 'sql', 'gateway', 'admin']).filter(({ port }) => port !== 0);
    const problems = await takenPorts(doors);
    if (problems.length > 0) return problems.map((problem) => found('ports', 'wrong', problem));
    return [found('ports', 'ok', `free: ${doors.map(({ port }) => port).join(', ')}`)];
  }
  const doors = await portsAt(settings.dataDir);
  const silent = await Promise.all(doors.map(async (door) => ((await connects(door)) ? [] : [door])));
  if (silent.flat().length === 0)
    return [found('ports', 'ok', `open: ${doors.map(({ name, port }) => `${name} ${port}`).join(', ')}`)];
  return silent
    .flat()
    .map(({ name, host, port }) => found('ports', 'wrong', `${name}: nothing listens on ${host}:${port}`));
}

async function connects({ host, port }: DoorAt): Promise<boolean> {
  const socket = connect({ host: reachable(host), port, signal: AbortSignal.timeout(limits.doctorAnswerMs) });
  try {
    await once(socket, 'connect');
    return true;
  } catch {
    return false;
  } finally {
    socket.destroy();
  }
}

async function diskFindings(dataDir: string, io: CommandIo): Promise<DoctorFinding[]> {
  try {
    const { freeBytes: free } = await diskSpace(dataDir);
    const flushMs = await flushTime(dataDir, io.elapsed);
    return [
      found(
        'disk',
        free < limits.doctorFreeBytesMin ? 'look' : 'ok',
        `${(free / 2 ** 30).toFixed(1)} GiB free in ${dataDir}`,
      ),
      found(
        'flush',
        flushMs > limits.doctorSlowFlushMs ? 'look' : 'ok',
        `a write reaches the disk after ${flushMs.toFixed(2)} ms (median): a single request cannot be answered sooner`,
      ),
    ];
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return [found('disk', 'wrong', `${dataDir} cannot be written (${code ?? 'unknown error'})`)];
  }
}

async function databaseFindings(where: Where, io: CommandIo): Promise<DoctorFinding[]> {
  try {
    return await within(where.dsn, 'doctor', async (session) => [
      ...(await versionFindings(session, io)),
      ...(await tableFindings(session)),
      ...(await gapFindings(session)),
    ]);
  } catch (error) {
    if (!(error instanceof PlainError)) throw error;
    return [found('database', 'wrong', error.message)];
  }
}

async function versionFindings(session: CommandSession, io: CommandIo): Promise<DoctorFinding[]> {
  const began = io.clock();
  const [row] =
    await session.rows(`SELECT current_setting('server_version') AS server, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS pages, to_regclass('headgate.migration')::text AS catalog, (extract(epoch FROM clock_timestamp()) * 1000)::bigint::text AS now`);
  const ended = io.clock();
  const apart = Math.round(Number(row?.['now'] ?? 0) - (began + ended) / 2);
  const far = Math.abs(apart) > limits.doctorClockMs;
  const off = [
    row?.['fsync'] === 'off' ? 'fsync' : [],
    row?.['pages'] === 'off' ? 'full_page_writes' : [],
  ].flat();
  return [
    found('database', 'ok', `PostgreSQL ${row?.['server'] ?? ''}`),
    ...(row?.['catalog'] === null
      ? [found('catalog', 'wrong', 'the schema headgate is missing: Headgate has never served this database')]
      : []),
    ...(off.length > 0
      ? [found('database', 'wrong', `${off.join(' and ')} = off: acknowledged rows may be lost in a crash`)]
      : []),
    found(
      'clock',
      far ? 'wrong' : 'ok',
      `the database's clock is ${Math.abs(apart)} ms ${apart < 0 ? 'behind' : 'ahead'}`,
    ),
  ];
}

/** Tables into which nothing gets (headgate.endpoint_states), and those that anybody can write to. */
async function tableFindings(session: CommandSession): Promise<DoctorFinding[]> {
  const rows =
    await session.rows(`SELECT format('%I.%I', n.nspname, c.relname) AS name, w.expression IS NOT NULL AS checked,
  CASE WHEN e.state = 'nothing stored' THEN (e.since_unauthorized + e.since_refused + e.since_unavailable)::text END AS failed,
  ${utcText('e.since')} AS since, CASE WHEN e.state = 'nothing stored'
    THEN (SELECT q.code || ': ' || q.reason FROM headgate.rejected_requests q WHERE q.relation = w.relation ORDER BY q.id DESC LIMIT 1) END AS reason
FROM headgate.endpoint_states e
JOIN headgate.webhook_table w ON w.relation = e.relation
JOIN pg_catalog.pg_class c ON c.oid = e.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
ORDER BY 1`);
  const findings = rows.flatMap(({ name, checked, failed, since, reason }) => {
    if (failed !== null)
      return [
        found(
          'tables',
          'wrong',
          `${name ?? ''} stores nothing: the last ${failed ?? ''} requests, since ${since ?? ''}, were not stored${reason === null ? '' : `, last: ${reason ?? ''}`}`,
        ),
      ];
    return checked === 't'
      ? []
      : [found('tables', 'look', `${name ?? ''} has no VALIDATE: anybody who can reach it can write to it`)];
  });
  return findings.length > 0
    ? findings
    : [found('tables', 'ok', `${rows.length} webhook ${rows.length === 1 ? 'table' : 'tables'}`)];
}

/** Tables of the role's own whose sender's log is not read, or has deliveries of the last seven days that have not come. */
async function gapFindings(session: CommandSession): Promise<DoctorFinding[]> {
  const rows = await session.rows(`SELECT format('%I.%I', e.schema_name, e.table_name) AS name,
  e.log_problem AS problem, ${utcText('g.next')} AS next, e.missing::text AS missing, g.reason
FROM headgate.endpoint_states e
CROSS JOIN LATERAL (
  SELECT max(s.next_at) AS next, (array_agg(s.reason ORDER BY s.window_from DESC) FILTER (WHERE s.reason IS NOT NULL))[1] AS reason
  FROM headgate.gaps s WHERE s.schema_name = e.schema_name AND s.table_name = e.table_name) g
WHERE e.log_problem IS NOT NULL OR e.missing > 0 ORDER BY 1`);
  return rows.flatMap(({ name, problem, next, missing, reason }) => [
    ...(problem === null
      ? []
      : [
          found(
            'reconcile',
            'look',
            `the log of ${name ?? ''} is not read: ${problem ?? ''}; again at ${next ?? ''}`,
          ),
        ]),
    ...(missing === '0'
      ? []
      : [
          found(
            'reconcile',
            'look',
            `${name ?? ''} lacks ${missing ?? ''} deliveries of the last 7 days that its sender's log has${reason === null ? '' : `: ${reason ?? ''}`}; headgate.gaps names them`,
          ),
        ]),
  ]);
}

/** Sends a request to a table that does not exist, so nothing is stored, and expects the answer that says so. */
async function doorFinding(check: string, base: string): Promise<DoctorFinding> {
  try {
    const response = await fetch(`${base}${doctorPath}`, {
      method: 'POST',
      body: '{}',
      redirect: 'manual',
      signal: AbortSignal.timeout(limits.doctorAnswerMs),
    });
    const text = await response.text();
    if (response.status === 404 && /"code":"not_found"/.test(text))
      return found(check, 'ok', `${base} answers as Headgate`);
    return found(
      check,
      response.status === 503 ? 'look' : 'wrong',
      `${base} answers ${response.status}, not like a Headgate whose database is available`,
    );
  } catch (error) {
    const { cause, name } = error as { cause?: NodeJS.ErrnoException; name?: string };
    return found(
      check,
      'wrong',
      `${base} does not answer (${cause?.code ?? cause?.message ?? name ?? 'unknown error'})`,
    );
  }
}

async function alertFinding(
  { alertUrl, alertForm: form }: Settings,
  version: string,
  io: CommandIo,
): Promise<DoctorFinding> {
  if (alertUrl === null) return found('alerts', 'wrong', 'HEADGATE_ALERT_URL is not set');
  const url = new URL(alertUrl);
  try {
    const message = trialMessage({ url, form }, { version, host: hostname() }, io.clock());
    await createPost(limits)(url, message, AbortSignal.timeout(limits.outgoingMs));
    return found('alerts', 'ok', `${url.host} accepted a test message`);
  } catch (error) {
    return found('alerts', 'wrong', `a test message did not arrive: ${(error as Error).message}`);
  }
}

async function publicFindings(publicUrl: string): Promise<DoctorFinding[]> {
  const url = new URL(publicUrl);
  const door = await doorFinding('public URL', publicUrl.replace(/\/$/, ''));
  if (url.protocol !== 'https:') return [door, found('TLS', 'look', `${publicUrl} is not encrypted`)];
  const days = await certificateDays(url);
  if (days === null) return [door, found('TLS', 'wrong', `${url.host} presents no certificate`)];
  const verdict = days < 0 ? 'wrong' : days < limits.doctorTlsDays ? 'look' : 'ok';
  return [
    door,
    found('TLS', verdict, `the certificate of ${url.host} is valid for ${Math.floor(days)} more days`),
  ];
}

/** How long the certificate of an https URL remains valid, in days, regardless of who signed it; null: the server presented none. Sends only the TLS handshake. */
function certificateDays(url: URL): Promise<number | null> {
  const host = hostOf(url);
  return new Promise((resolve) => {
    const socket = connectTls({
      host,
      port: Number(url.port === '' ? 443 : url.port),
      ...(isIP(host) === 0 ? { servername: host } : {}),
      // The certificate is read, not trusted.
      rejectUnauthorized: false,
      timeout: limits.doctorAnswerMs,
    });
    const end = (days: number | null): void => {
      socket.destroy();
      resolve(days);
    };
    socket.once('secureConnect', () => {
      const { valid_to: until } = socket.getPeerCertificate();
      end(until === undefined ? null : (Date.parse(until) - Date.now()) / 86_400_000);
    });
    socket.once('timeout', () => end(null));
    socket.once('error', () => end(null));
  });
}
