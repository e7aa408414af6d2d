/**
 * The settings of the embedded PostgreSQL, each with its reason. There are two kinds: settings that Headgate's promises
 * depend on are on the command line, where no file overrides them; settings that are a good choice for ingestion are in
 * `headgate.conf`, which postgresql.conf includes, so that an owner can override them below that line. Pure.
 */
import { limits } from '../config/limits.ts';

/** Settings that apply whatever postgresql.conf and ALTER SYSTEM say. `socketDir` may be relative to the cluster. */
export function fixedSettings(socketDir: string): Record<string, string> {
  return {
    // Distinguishes an orphan of Headgate's from a PostgreSQL that somebody started by hand; also shown by ps.
    cluster_name: 'headgate',
    // Only the socket: there is no port to choose and nothing to reach from another machine.
    listen_addresses: '',
    unix_socket_directories: socketDir,
    unix_socket_permissions: '0700',
    port: '5432',
    // A 2xx is a durable row.
    fsync: 'on',
    full_page_writes: 'on',
    // Headgate receives its log lines and reports them as observations.
    logging_collector: 'off',
    log_destination: 'stderr',
    log_line_prefix: '[%p] ',
    // No statement and no parameter in the log: they contain what senders sent and, if mistyped, secrets.
    log_statement: 'none',
    log_min_duration_statement: '-1',
    log_min_error_statement: 'panic',
    log_parameter_max_length: '0',
    log_parameter_max_length_on_error: '0',
    // Above ERROR (LOG is between ERROR and FATAL in this list): the text of an error quotes the value that was
    // refused, and a sender of bad rows would fill the log.
    log_min_messages: 'log',
    // Without DETAIL and CONTEXT, which quote rows.
    log_error_verbosity: 'terse',
    // The CONTEXT line says which row COPY refused, and the log says why a startup failed: both are parsed.
    lc_messages: 'C',
  };
}

/** The same with HEADGATE_LOGICAL_REPLICATION: every row then takes a little more of the log. */
export const logicalSettings: Readonly<Record<string, string>> = { wal_level: 'logical' };

type Choice = readonly [name: string, value: string, reason: string];

/**
 * An eighth of the memory, between PostgreSQL's own default and what an index over some ten million rows needs. Not a
 * quarter, as is usual if PostgreSQL has a machine to itself: the system's cache, Headgate and whatever else runs there
 * need memory, too.
 */
export function sharedBuffersMiB(memoryBytes: number): number {
  return Math.min(1_024, Math.max(128, Math.floor(memoryBytes / 8 / 2 ** 20)));
}

const ingestion = (memoryBytes: number): readonly Choice[] => [
  [
    'max_connections',
    `${limits.engineConnectionsMax}`,
    'SQL clients, commits and the catalog; each costs little until used',
  ],
  [
    'shared_buffers',
    `${sharedBuffersMiB(memoryBytes)}MB`,
    'an eighth of the memory, at most 1 GB: an index that fits is not read again; memory only where it is used',
  ],
  ['max_wal_size', '4GB', 'few checkpoints while rows pour in; also bounds the log replayed after a crash'],
  ['min_wal_size', '1GB', 'segments are recycled: a new one is filled and synced while everybody waits'],
  ['max_slot_wal_keep_size', '4GB', 'who follows the log and is away must not fill the disk'],
  ['checkpoint_timeout', '15min', 'each checkpoint makes every touched page be logged in full again'],
  [
    'wal_compression',
    'off',
    'pglz costs a scattered upsert four times its CPU; the packaged build has no lz4',
  ],
  ['jit', 'off', 'statements are short, and the packaged build has none'],
  ['synchronous_commit', 'on', 'a table may choose otherwise: webhook.wait_for_persistence'],
  ['autovacuum', 'on', 'insert-only tables too need their freezing and statistics'],
  ['idle_in_transaction_session_timeout', '1h', 'a forgotten BEGIN must not hold back vacuum for ever'],
];

/** `memoryBytes`: of the machine, or the limit of the container. */
export function headgateConf(memoryBytes: number): string {
  const lines = ingestion(memoryBytes).map(([name, value, reason]) => `# ${reason}\n${name} = '${value}'\n`);
  return [
    '# Written by Headgate at every start; edits here are lost. To choose another value, set it in',
    '# postgresql.conf below the line that includes this file.\n',
    ...lines,
  ].join('\n');
}

/** Appended once to the postgresql.conf that initdb created. */
export const includeLine = `
# Headgate's choices. Set your own below this line; they win.
include_if_exists = 'headgate.conf'
`;

/** Everybody who can reach the socket, that is its folder's owner and root, may connect; nobody else, ever. */
export const initdbArgs: readonly string[] = [
  '--username=root',
  '--auth-local=trust',
  // Nothing listens on TCP; if an owner changes that, nobody gets in unless the owner adds a line.
  '--auth-host=reject',
  '--encoding=UTF8',
  // The builtin provider: no update of glibc or ICU can change the sort order and thereby break an index.
  '--locale-provider=builtin',
  '--locale=C.UTF-8',
];
