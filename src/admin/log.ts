/**
 * Observations as log lines. Takes every observation and writes one line for each that is severe enough: a JSON
 * object, or the same for people. Touches nothing but the given `write`. Whatever text came from outside stays
 * inside its field: JSON escapes it, and the pretty form escapes everything a terminal would act on.
 */
import { pino } from 'pino';
import type { Observation, Observe, TableName } from '../observations.ts';

export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  /** Takes one whole line with its line break. */
  readonly write: (line: string) => void;
  /** ms since 1970 */
  readonly now: () => number;
}

const severity: Record<LogLevel, number> = { debug: 20, info: 30, warn: 40, error: 50 };

const levels: { readonly [kind in Observation['kind']]: LogLevel } = {
  'request.answered': 'debug',
  'request.failed': 'error',
  'gateway.answered': 'debug',
  'websocket.opened': 'debug',
  'websocket.closed': 'debug',
  'batch.answered': 'debug',
  'group.committed': 'debug',
  'group.aborted': 'warn',
  'group.unknown': 'warn',
  'group.settled': 'warn',
  'values.nulled': 'debug',
  'engine.starting': 'info',
  'engine.ready': 'info',
  'engine.lost': 'error',
  'engine.orphan_stopped': 'warn',
  'engine.said': 'warn',
  'engine.stopped': 'info',
  'catalog.loaded': 'debug',
  'catalog.unreadable': 'error',
  'catalog.table_unusable': 'error',
  'catalog.migrated': 'info',
  'rejected.stored': 'debug',
  'rejected.dropped': 'debug',
  'rejected.unwritable': 'warn',
  'rejected.retried': 'info',
  'sql.connected': 'debug',
  'sql.login_failed': 'warn',
  'sql.closed': 'debug',
  'sql.rewritten': 'debug',
  'sql.failed': 'error',
  'tls.loaded': 'info',
  'tls.unusable': 'error',
  'door.opened': 'info',
  'operator.leading': 'info',
  'operator.following': 'info',
  'operator.lease_failed': 'warn',
  'operator.watch_failed': 'warn',
  'operator.reconciled': 'debug',
  'operator.reconcile_failed': 'warn',
  'operator.told': 'info',
  'operator.too_many': 'error',
  'listener.started': 'info',
  'listener.lost': 'error',
  'listener.said': 'warn',
  'service.ready': 'info',
  'service.draining': 'info',
  'service.stopped': 'info',
};

type Fields = Readonly<Record<string, unknown>>;

export function createLog(options: LogOptions): Observe {
  const least = severity[options.level];
  const write = options.format === 'json' ? jsonWriter(options) : prettyWriter(options);
  return (observation) => {
    const level = levelOf(observation);
    if (severity[level] >= least) write(level, observation.kind, fieldsOf(observation));
  };
}

/** Whether a log of that level says it. */
export function isSaid(observation: Observation, level: LogLevel): boolean {
  return severity[levelOf(observation)] >= severity[level];
}

function levelOf(observation: Observation): LogLevel {
  return observation.kind === 'engine.said' ? levelOfEngine(observation.line) : levels[observation.kind];
}

/**
 * PostgreSQL's own words for how severe its line is; what it logs of its daily work is for who looks closely. They stand
 * behind its prefix or nowhere: further lines of one message begin with a tab, and may hold what a client wrote.
 */
function levelOfEngine(line: string): LogLevel {
  const severity = /^(?:[^\t[]{0,40}\[\d+\] )?(DEBUG\d|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC):/.exec(
    line,
  )?.[1];
  if (severity === 'FATAL' || severity === 'PANIC') return 'error';
  return severity === 'WARNING' || severity === 'ERROR' ? 'warn' : 'debug';
}

/** What a line says besides time, level and kind: the observation's own fields, flat. */
function fieldsOf(observation: Observation): Fields {
  const { kind: _, ...rest } = observation;
  const fields: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(rest) as [string, unknown][]) {
    if (name === 'table') fields[name] = value === null ? null : tableText(value as TableName);
    else if (name === 'error') fields[name] = errorText(value);
    else fields[name] = value;
  }
  return fields;
}

/** Names are quoted as in SQL where a dot or a quote in them could make another name of it. */
function tableText({ database, schema, table }: TableName): string {
  return [database, schema, table]
    .map((name) => (/^[\w$-]+$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`))
    .join('.');
}

/** With its stack and its causes. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const text = error.stack ?? `${error.name}: ${error.message}`;
  return error.cause === undefined ? text : `${text}\ncaused by ${errorText(error.cause)}`;
}

type Write = (level: LogLevel, kind: string, fields: Fields) => void;

/**
 * What JSON leaves as it is and terminals and log viewers act on: DEL and the C1 controls (U+009B begins a sequence as ESC [
 * does), line and paragraph separators, marks that turn the direction of writing or are not seen. All of it can only
 * stand inside a string.
 */
const unseen = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const escaped = (char: string): string => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;

function jsonWriter({ write, now }: LogOptions): Write {
  const logger = pino(
    {
      level: 'debug',
      base: null,
      messageKey: 'kind',
      timestamp: () => `,"time":"${new Date(now()).toISOString()}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => write(line.replace(unseen, escaped)) },
  );
  return (level, kind, fields) => logger[level](fields, kind);
}

function prettyWriter({ write, now }: LogOptions): Write {
  return (level, kind, fields) => {
    const time = new Date(now()).toISOString().slice(11, 23);
    const text = Object.entries(fields).map(([name, value]) => ` ${name}=${prettyValue(value)}`);
    write(`${time} ${level.toUpperCase().padEnd(5)} ${kind}${text.join('')}\n`);
  };
}

/** Bare when it is one plain word, otherwise a JSON string in which nothing but printable ASCII and letters is left. */
function prettyValue(value: unknown): string {
  if (typeof value === 'number' && !Number.isInteger(value)) return String(Number(value.toPrecision(4)));
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? 'null');
  if (/^[\w.:/@+,-]+$/.test(text)) return text;
  return JSON.stringify(text).replace(
    /[^\x20-\x7e\p{L}\p{N}]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  );
}
