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
import { gatewayIsClosed, gatewayIsOpen } from '../host/door-settings.ts';
import { senderOf } from '../senders/senders.ts';
import { diskSpace, flushTime } from '../host/disk-space.ts';
import { doorsOf, takenPorts } from '../host/ports.ts';
import { jsonLine, painted, plain } from '../kit/terminal.ts';
import { doctorPath } from '../observe/tail.ts';
import type { CommandIo, Style } from '../kit/terminal.ts';
import { utcText } from './session.ts';
import type { CommandSession, Texts } from './session.ts';
import { isExternalAt, portsAt } from './find-headgate.ts';
import { inDatabases } from './databases.ts';
import type { DoorAt, Where } from './find-headgate.ts';

type DoctorVerdict = 'ok' | 'look' | 'wrong';

interface DoctorFinding {
  /** What it is about, if that is a database, and there are several. */
  readonly database?: string;
  readonly check: string;
  readonly verdict: DoctorVerdict;
  readonly says: string;
}

interface About {
  readonly version: string;
  readonly local: boolean;
  /** Which databases are looked at: that of the connection, or all. */
  readonly which: 'one' | 'all';
  readonly json: boolean;
  /** Send a test message. */
  readonly alert: boolean;
}

/** `local`: the Headgate is on this machine; its files and ports are checked. */
export async function doctorCommand(
  where: Where | null,
  settings: Settings,
  { version, local, which, json, alert }: About,
  io: CommandIo,
): Promise<number> {
  const findings: DoctorFinding[] = [
    found('versions', 'ok', `Headgate ${version}, Node ${process.versions.node}`),
  ];
  if (local) {
    findings.push(
      ...(await settingsFindings(settings, where)),
      ...(await diskFindings(settings.dataDir, io)),
    );
    findings.push(...(await portFindings(settings, where !== null)));
  }
  if (where === null)
    findings.push(
      found('headgate', 'wrong', `no Headgate runs on ${settings.dataDir}: start it with headgate start`),
    );
  else {
    findings.push(...(await databaseFindings(where, which, urlOf(where, settings, local), io)));
    if (where.url !== null) findings.push(await doorFinding('webhooks', where.url));
  }
  if (alert) findings.push(await alertFinding(settings, version, io));
  if (settings.publicUrl !== null) findings.push(...(await publicFindings(settings.publicUrl)));
  for (const finding of findings)
    io.print(
      json
        ? jsonLine(finding)
        : `${painted(io, styles[finding.verdict], marks[finding.verdict])}  ${finding.check.padEnd(11)}  ${plain(textOf(finding))}\n`,
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

const textOf = ({ database, says }: DoctorFinding): string =>
  database === undefined ? says : `${database}: ${says}`;

/** HEADGATE_PUBLIC_URL of the Headgate that was found; null: it has none; undefined: not known. */
function urlOf({ publicUrl }: Where, settings: Settings, local: boolean): string | null | undefined {
  return publicUrl ?? settings.publicUrl ?? (local ? null : undefined);
}

/** `where`: the Headgate that runs here; its settings may be another shell's. */
async function settingsFindings(settings: Settings, where: Where | null): Promise<DoctorFinding[]> {
  const elsewhere = where !== null && settings.databaseUrl === null && (await isExternalAt(settings.dataDir));
  const problems = await problemsOf(elsewhere ? { ...settings, databaseUrl: where.dsn } : settings);
  if (problems.length > 0) return problems.map((problem) => found('settings', 'wrong', problem));
  if (elsewhere)
    return [
      found(
        'settings',
        'look',
        'the Headgate that runs here has its tables in the server of a HEADGATE_DATABASE_URL, which this shell does not have; start would accept the others',
      ),
    ];
  return [found('settings', 'ok', 'start would accept them'), ...gatewayFindings(settings)];
}

/** If somebody has closed the SQL port, or runs a server that asks for passwords, the gateway is the way around that. */
function gatewayFindings(settings: Settings): DoctorFinding[] {
  const { gatewayHost: host, gatewayPort: port, databaseUrl } = settings;
  if (gatewayIsClosed(settings))
    return [
      found('gateway', 'ok', `the events gateway on ${host}:${port} is closed until EVENTS_API_TOKEN is set`),
    ];
  if (!gatewayIsOpen(settings)) return [];
  const password = databaseUrl === null ? 'HEADGATE_SQL_PASSWORD' : 'the password of your server';
  const says = `the events gateway on ${host}:${port} runs SQL for whoever reaches it, without a credential: ${password} is for the SQL port, EVENTS_API_TOKEN for the gateway`;
  return [found('gateway', 'look', says)];
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

/** `publicUrl`: as urlOf() has it. */
async function databaseFindings(
  where: Where,
  which: 'one' | 'all',
  publicUrl: string | null | undefined,
  io: CommandIo,
): Promise<DoctorFinding[]> {
  let server: DoctorFinding[] | null = null;
  try {
    const looked = await inDatabases(where, 'doctor', which, async (session) => {
      server ??= await versionFindings(session, io);
      return [
        ...(await catalogFindings(session)),
        ...(await tableFindings(session, publicUrl)),
        ...(await gapFindings(session)),
      ];
    });
    const named = looked.flatMap(({ database, found: findings, problem }) =>
      (findings ?? [found('database', 'look', problem ?? '')]).map((it) =>
        looked.length === 1 ? it : { ...it, database },
      ),
    );
    return [...(server ?? []), ...named];
  } catch (error) {
    if (!(error instanceof PlainError)) throw error;
    return [found('database', 'wrong', error.message)];
  }
}

async function versionFindings(session: CommandSession, io: CommandIo): Promise<DoctorFinding[]> {
  const began = io.clock();
  const [row] =
    await session.rows(`SELECT current_setting('server_version') AS server, current_setting('fsync') AS fsync,
  current_setting('full_page_writes') AS pages, (extract(epoch FROM clock_timestamp()) * 1000)::bigint::text AS now`);
  const ended = io.clock();
  const apart = Math.round(Number(row?.['now'] ?? 0) - (began + ended) / 2);
  const far = Math.abs(apart) > limits.doctorClockMs;
  const off = [
    row?.['fsync'] === 'off' ? 'fsync' : [],
    row?.['pages'] === 'off' ? 'full_page_writes' : [],
  ].flat();
  return [
    found('database', 'ok', `PostgreSQL ${row?.['server'] ?? ''}`),
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

async function catalogFindings(session: CommandSession): Promise<DoctorFinding[]> {
  const [row] = await session.rows(
    `SELECT to_regclass('headgate.migration')::text AS catalog, obj_description(to_regnamespace('headgate'), 'pg_namespace') AS told`,
  );
  const { catalog = null, told = null } = row ?? {};
  if (catalog === null)
    return [
      found('catalog', 'wrong', 'the schema headgate is missing: Headgate has never served this database'),
    ];
  return told?.startsWith('made anew') === true
    ? [
        found(
          'catalog',
          'wrong',
          `the schema headgate was ${told}. COMMENT ON SCHEMA headgate IS NULL ends this`,
        ),
      ]
    : [];
}

/** The name `url` outside of literals. */
const readsUrl = (expression: string): boolean =>
  /(?<![\w."])url(?!\w)/i.test(expression.replaceAll(/'(?:[^']|'')*'/g, "''"));

/** A table whose check reads the URL that its sender calls, which nobody has said. */
function urlFinding(
  { name, expression, secrets }: Texts,
  publicUrl: string | null | undefined,
): DoctorFinding | null {
  if (typeof publicUrl === 'string' || !readsUrl(expression ?? '')) return null;
  const sender = senderOf(expression ?? '', JSON.parse(secrets ?? '[]') as string[]);
  const why =
    sender === null
      ? 'its check reads url, which is NULL without HEADGATE_PUBLIC_URL'
      : `${sender.name} signs the URL that it calls, which HEADGATE_PUBLIC_URL has to name`;
  if (publicUrl === undefined)
    return found('tables', 'look', `${name ?? ''} needs HEADGATE_PUBLIC_URL: ${why}`);
  return found(
    'tables',
    sender === null ? 'look' : 'wrong',
    `${name ?? ''} ${sender === null ? 'may refuse' : 'refuses'} everything: ${why}, and it is not set`,
  );
}

/** Tables into which nothing gets (headgate.endpoint_states), and those that anybody can write to. */
async function tableFindings(
  session: CommandSession,
  publicUrl: string | null | undefined,
): Promise<DoctorFinding[]> {
  const rows =
    await session.rows(`SELECT format('%I.%I', n.nspname, c.relname) AS name, w.expression IS NOT NULL AS checked, w.expression,
  (SELECT json_agg(b.alias ORDER BY b.position)::text FROM headgate.webhook_table_secret b WHERE b.relation = w.relation) AS secrets,
  CASE WHEN e.state = 'nothing stored' THEN (e.since_unauthorized + e.since_refused + e.since_unavailable)::text END AS failed,
  ${utcText('e.since')} AS since, CASE WHEN e.state = 'nothing stored'
    THEN (SELECT q.code || ': ' || q.reason FROM headgate.rejected_requests q WHERE q.relation = w.relation ORDER BY q.id DESC LIMIT 1) END AS reason
FROM headgate.endpoint_states e
JOIN headgate.webhook_table w ON w.relation = e.relation
JOIN pg_catalog.pg_class c ON c.oid = e.relation
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
ORDER BY 1`);
  const findings = rows.flatMap((row) => {
    const { name, checked, failed, since, reason } = row;
    const needsUrl = urlFinding(row, publicUrl);
    if (needsUrl !== null) return [needsUrl];
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
