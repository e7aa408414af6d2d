/**
 * Turns the command line and the environment into one command. Owns signals and the exit status: 0 after a clean stop, 1 with one line for
 * each problem that keeps Headgate from running. A command loads its rooms only when it runs, so that --help, and `send` in a loop, are cheap.
 */
import { randomBytes } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { createInterface } from 'node:readline';
import { Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { Command, InvalidArgumentError, Option } from 'commander';
import { urlHost } from '../kit/address.ts';
import { PlainError } from '../kit/plain-error.ts';
import type { SendOptions } from '../senders/send-options.ts';
import { limits } from '../config/limits.ts';
import { resolveSettings } from '../config/resolve-settings.ts';
import { settingsTable } from '../config/settings.ts';
import type { ResolvedSettings, SettingName, Settings, SocketName } from '../config/settings.ts';
import { registerCommands } from '../cli/register.ts';
import { within } from '../kit/promises.ts';
import { wantsColours } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import type { Readiness, Stopped } from './service.ts';
import type { Terminal } from './terminal.ts';

/** How the system called the program. */
export interface Invocation {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly version: string;
}

let invoked: Invocation = { argv: [], env: {}, version: 'unknown' };

const rows = Object.entries(settingsTable) as [SettingName, (typeof settingsTable)[SettingName]][];

/** The settings' headings in `start --help`, each with how the names of its settings begin; the first that fits. */
const topics: readonly (readonly [heading: string, names: RegExp])[] = [
  ['A certificate from an authority:', /^listenAcme/],
  ['The webhook listener:', /^(listen|public|fastPath|websocket|body|confirm)/],
  ['The SQL port:', /^sql/],
  ['The events gateway:', /^(gateway|events)/],
  ['The admin port and the console:', /^(admin|console)/],
  ['Who may come, and how often:', /^(trusted|forwarded|address|table|insecure|trace)/],
  ['Refused requests, the spool and alerts:', /^(rejected|spool|alert)/],
  ['Kubernetes:', /^operator/],
];

/** Adds all settings as options; the help shows `shown` of them, or all, by topic. */
function withSettings(command: Command, shown: readonly SettingName[] | null = null): Command {
  for (const [name, row] of rows) {
    if (row.flag === null) continue;
    // An option that is off by default is switched on by naming it; one that is on takes a value, so that it can be switched off.
    const value = row.default === false ? '' : ` <${row.value}>`;
    const none = row.default === null || row.default === false || String(row.default) === '';
    const standard = none ? '' : `, default ${String(row.default)}`;
    const option = new Option(`--${row.flag}${value}`, `${row.help} (${row.env}${standard})`);
    const topic = topics.find(([, names]) => names.test(name))?.[0];
    if (shown === null && topic !== undefined) option.helpGroup(topic);
    command.addOption(value === '' ? option : option.argParser(once));
    if (shown?.includes(name) === false) option.hideHelp();
  }
  if (shown !== null)
    command.addHelpText(
      'after',
      '\nThe other settings of `headgate start` are accepted too (headgate start --help).',
    );
  return command;
}

/** Which Headgate, for commands that work on its files and its database. */
const whichHeadgate: readonly SettingName[] = ['dataDir', 'databaseUrl', 'masterKeyFile'];

/** For commands that talk to a running Headgate. */
function withDataDir(command: Command): Command {
  const { help, env, default: shown } = settingsTable.dataDir;
  return command.addOption(
    new Option('--data-dir <DIR>', `${help} (${env}, default ${shown})`).argParser(once),
  );
}

function several(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** Refuses a flag that is given twice, because it is unclear which value was meant. */
function once(value: string, before: string | undefined): string {
  if (before !== undefined) throw new InvalidArgumentError('It is given twice.');
  return value;
}

function settingsOf(options: Readonly<Record<string, string | true | undefined>>): ResolvedSettings {
  const flags: { [K in SettingName]?: string | true | undefined } = {};
  for (const [name, row] of rows) {
    const key = row.flag?.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
    if (key !== undefined) flags[name] = options[key];
  }
  return resolveSettings({ env: invoked.env, flags });
}

/** The settings to run with: the log format `auto` is resolved here, where the terminal is known. */
function settingsToRun(options: Record<string, string | true | undefined>): Settings {
  const { settings } = settingsOf(options);
  if (settings.logFormat !== 'auto') return settings;
  return { ...settings, logFormat: process.stderr.isTTY ? 'pretty' : 'json' };
}

/** With the sockets that the parent process passed on, which is rare. */
async function withSockets(settings: Settings, doors: readonly SocketName[]): Promise<Settings> {
  if (invoked.env['LISTEN_FDS'] === undefined) return settings;
  const sockets = await import('../host/sockets.ts');
  return sockets.withSockets(settings, { env: invoked.env, pid: process.pid }, doors);
}

async function terminalOf(settings: Settings): Promise<Terminal> {
  const { openTerminal } = await import('./terminal.ts');
  return openTerminal(settings);
}

async function start(options: Record<string, string | true | undefined>): Promise<void> {
  // Before the first await: a signal during the start must not leave an engine behind.
  const stopped = firstSignal();
  const settings = await withSockets(settingsToRun(options), [
    'listen',
    'challenge',
    'sql',
    'gateway',
    'admin',
  ]);
  const [{ startService }, { banner, waitingBanner }] = await Promise.all([
    import('./start.ts'),
    import('./banner.ts'),
  ]);
  const terminal = await terminalOf(settings);
  const service = await startService(settings, terminal.log, invoked.version);
  reloadOnSignal(service.reload);
  const tell = async (): Promise<void> => {
    const note = await (await import('./first-table.ts')).whyNoFirstTable(service.engine);
    terminal.print(banner(service, settings, { note, terminal: process.stdout.isTTY }));
  };
  await whenReady(service, tell, (reason) => terminal.print(waitingBanner(service, settings, reason)));
  await end(terminal, service.stop(await stopped));
}

async function gateway(options: Record<string, string | true | undefined>): Promise<void> {
  const stopped = firstSignal();
  const settings = await withSockets(settingsToRun(options), ['gateway']);
  const [{ startGateway }, { gatewayBanner, gatewayWaits }] = await Promise.all([
    import('./gateway-main.ts'),
    import('./banner.ts'),
  ]);
  const terminal = await terminalOf(settings);
  const service = await startGateway(settings, terminal.log, invoked.version);
  reloadOnSignal(service.reload);
  const tell = async () => terminal.print(gatewayBanner(service, settings));
  await whenReady(service, tell, (reason) => terminal.print(gatewayWaits(service, settings, reason)));
  await end(terminal, service.stop(await stopped));
}

async function operator(options: Record<string, string | true | undefined>): Promise<void> {
  const settings = settingsToRun(options);
  const stopped = firstSignal();
  const { startOperator } = await import('./operator-main.ts');
  const terminal = await terminalOf(settings);
  const running = await startOperator(settings, terminal.log);
  await end(terminal, running.stop(await stopped));
}

/** Nothing is called ready before it is. */
async function whenReady(
  { waiting, ready }: Readiness,
  tell: () => Promise<void>,
  wait: (reason: string) => void,
): Promise<void> {
  if (waiting === null) return tell();
  // Mostly the catalog is still being read, or made.
  if ((await within(limits.readyTellMs, ready, null)) === true) return tell();
  wait(waiting);
  void ready.then((is) => (is ? tell() : undefined));
}

/** Throws PlainError. */
const unreadable =
  (path: string) =>
  (error: NodeJS.ErrnoException): never => {
    const why = error.code === 'ENOENT' ? 'there is no such file' : error.message;
    throw new PlainError(`${path} cannot be read: ${why}`);
  };

/** Exits even if something is still open, such as a connection to a hung server. */
async function end(terminal: Terminal, stopping: Promise<Stopped>): Promise<void> {
  await terminal.exit((await stopping) === 'in order' ? 0 : 1);
}

/** Without certificates to reload, SIGHUP keeps its default meaning: the terminal is gone. */
function reloadOnSignal(reload: (() => Promise<void>) | null): void {
  if (reload !== null) process.on('SIGHUP', () => void reload());
}

/**
 * The first signal asks for a clean stop; a second one ends the process at once. The same signal soon after the first one is not a second: on Ctrl-C
 * a terminal sends SIGINT to all its processes, and npm passes on its own. The process also ends a fixed time after the first signal, whatever it is
 * doing, including a start that hangs.
 */
function firstSignal(): Promise<string> {
  return new Promise((resolve) => {
    let first: { readonly signal: string; readonly at: number } | null = null;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (first?.signal === signal && performance.now() - first.at < limits.sameSignalMs) return;
        if (first !== null) process.exit(signal === 'SIGTERM' ? 143 : 130);
        first = { signal, at: performance.now() };
        setTimeout(() => process.exit(1), limits.stopMs).unref();
        resolve(signal);
      });
    }
  });
}

async function config(options: Record<string, string | true | undefined>): Promise<void> {
  const { settings, origins } = settingsOf(options);
  const lines = rows.map(([name, row]) => {
    const value = settings[name];
    const none = value === null || (Array.isArray(value) && value.length === 0);
    const shown = none ? '(none)' : row.secret ? '***' : String(value);
    return [row.env, shown, origins[name]];
  });
  for (const { env } of settings.eventDatabases) lines.push([env, '***', env]);
  const widths = [0, 1].map((column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  for (const [env = '', shown = '', origin = ''] of lines) {
    process.stdout.write(`${env.padEnd(widths[0] ?? 0)}  ${shown.padEnd(widths[1] ?? 0)}  ${origin}\n`);
  }
  const [{ refuse }, { problemsOf }] = await Promise.all([
    import('./start.ts'),
    import('../host/check-settings.ts'),
  ]);
  await refuse(problemsOf(settings));
}

async function rotate(options: Record<string, string | true | undefined>): Promise<void> {
  const { rotateKey } = await import('../cli/rotate-key.ts');
  await rotateKey(settingsOf(options).settings, {
    say: (line) => void process.stdout.write(`${line}\n`),
    warn: (line) => void process.stderr.write(`headgate: ${line}\n`),
  });
}

async function reveal(
  name: string,
  { database, ...rest }: Record<string, string | true | undefined>,
): Promise<void> {
  const { revealSecret } = await import('../cli/secrets.ts');
  const value = await revealSecret(
    settingsOf(rest).settings,
    name,
    typeof database === 'string' ? database : null,
  );
  process.stdout.write(`${value}\n`);
}

async function moveTo(options: Record<string, string | true | undefined>): Promise<void> {
  const { to, database, leaveOut, ...rest } = options;
  const { move } = await import('../cli/move/move.ts');
  await move(
    settingsOf(rest).settings,
    String(to),
    typeof database === 'string' ? database : null,
    leaveOut === true,
    {
      say: (line) => void process.stdout.write(`${line}\n`),
      warn: (line) => void process.stderr.write(`headgate: ${line}\n`),
    },
  );
}

async function spool(
  what: 'check' | 'dump' | 'drain',
  folder: string,
  options: Record<string, string | true | undefined>,
): Promise<void> {
  const settings = settingsToRun(options);
  const { checkSpool, drainSpool, dumpSpool } = await import('./spool-command.ts');
  const say = (line: string): void => void process.stdout.write(`${line}\n`);
  if (what === 'check') process.exitCode = (await checkSpool(folder, settings, say)) ? 0 : 1;
  else if (what === 'dump') await dumpSpool(folder, settings, say);
  else await drainSpool(folder, settings, (await terminalOf(settings)).log);
}

/** Reads a line from the terminal, which shows none of it. */
async function askHidden(question: string, signal: AbortSignal): Promise<string | null> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = createInterface({ input: process.stdin, output: silent, terminal: true });
  // The terminal shows nothing any more: not even what is typed as soon as the question is there.
  process.stderr.write(question);
  try {
    return await new Promise<string | null>((resolve) => {
      lines.once('line', resolve);
      lines.once('close', () => resolve(null));
      // In raw mode Ctrl-C is a key.
      lines.once('SIGINT', () => process.kill(process.pid, 'SIGINT'));
      signal.addEventListener('abort', () => resolve(null), { once: true });
    });
  } finally {
    lines.close();
    process.stderr.write('\n');
  }
}

let io: CommandIo | null = null;

/** The same for everything that one command does. A signal interrupts it. */
function commandIo(): CommandIo {
  io ??= openIo();
  return io;
}

function openIo(): CommandIo {
  const interrupt = new AbortController();
  void firstSignal().then(() => interrupt.abort());
  return {
    print: (text) => void process.stdout.write(text),
    note: (text) => void process.stderr.write(text),
    terminal: process.stderr.isTTY,
    ...(process.stdout.isTTY ? { columns: process.stdout.columns } : {}),
    colours: wantsColours(invoked.env, process.stdout.isTTY),
    read: (path) => (path === '-' ? buffer(process.stdin) : readFile(path).catch(unreadable(path))),
    ...(process.stdin.isTTY && process.stderr.isTTY
      ? { ask: (question) => askHidden(question, interrupt.signal) }
      : {}),
    clock: Date.now,
    elapsed: () => performance.now(),
    random: randomBytes,
    signal: interrupt.signal,
  };
}

async function send(sender: string, options: Omit<SendOptions, 'sender'>): Promise<void> {
  const { sendCommand } = await import('../senders/send.ts');
  process.exitCode = await sendCommand({ ...options, sender }, commandIo());
}

/**
 * The message of an error that was written for the terminal, or what PostgreSQL or the system has answered. Any other error is a bug and is
 * shown with its stack.
 */
async function explain(error: unknown): Promise<string> {
  if (error instanceof PlainError) return error.message;
  const { code, syscall, port, address } = error as NodeJS.ErrnoException & {
    port?: number;
    address?: string;
  };
  if (syscall === 'listen') {
    const where = `${urlHost(address ?? '')}:${port ?? ''}`;
    if (code === 'EADDRINUSE')
      return `${where} is in use by another program: choose another port (0 picks a free one)`;
    return `cannot listen on ${where}: ${code ?? 'unknown error'}`;
  }
  const isReset = code === 'ECONNRESET' || code === 'EPIPE';
  if (syscall !== undefined && !isReset && error instanceof Error) return error.message;
  // Few commands meet a database, and fewer lose it.
  const { isConnectionLost, sqlstateOf } = await import('../engine/sqlstate.ts');
  if (isConnectionLost(error))
    return `the connection to the database was lost (${(error as Error).message}): run this again when the database is back`;
  const sqlstate = sqlstateOf(error);
  if (sqlstate !== null)
    return `the database answers with an error (SQLSTATE ${sqlstate}): ${(error as Error).message}`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

const program = new Command('headgate').description('A webhook destination that is a SQL database.');
withSettings(program.command('start').description('start the service')).action(start);
withSettings(
  program
    .command('gateway')
    .description('start the events gateway alone, in front of the databases of EVENTS_API_<DB>_DSN'),
  rows
    .map(([name]) => name)
    .filter((name) => /^(gateway|admin|logLevel|logFormat|insecure|trusted|forwarded)/.test(name)),
).action(gateway);
withSettings(
  program
    .command('operator')
    .description('manage the Headgate resources of a Kubernetes cluster (KUBECONFIG, or the pod it runs in)'),
  rows.map(([name]) => name).filter((name) => /^(operator|admin|logLevel|logFormat)/.test(name)),
).action(operator);
withSettings(
  program
    .command('config')
    .description('print every setting with its value and source, and what start would refuse'),
  ['dataDir', 'databaseUrl'],
).action(config);
const secrets = program.command('secrets').description('manage secrets and the key that seals them');
withSettings(
  secrets
    .command('rotate-key')
    .description('seal every secret with a new master key; Headgate may be running'),
  whichHeadgate,
).action(rotate);
withSettings(
  secrets
    .command('reveal')
    .description('print a secret that was learned from its sender, once')
    .argument('<name>')
    .option('--database <name>', "the database that holds it; default: Headgate's default database"),
  whichHeadgate,
).action(reveal);
withSettings(
  program
    .command('move')
    .description('move a database of this Headgate to another PostgreSQL; Headgate may be running')
    .requiredOption(
      '--to <dsn>',
      'the target: postgresql://…, an empty database of PostgreSQL 14 to 18; PGPASSWORD may hold its password',
    )
    .option('--database <name>', "the database to move; default: Headgate's default database")
    .option('--leave-out', 'continue although some objects are not moved'),
  whichHeadgate,
).action(moveTo);
registerCommands(program, {
  withDataDir,
  withSettings,
  settings: (flags) => settingsOf(flags).settings,
  namesDataDir: (flags) => settingsOf(flags).origins.dataDir !== 'default',
  version: () => invoked.version,
  io: commandIo,
  secrets,
});
const spools = program
  .command('spool')
  .description('manage a directory of webhooks that were kept while the database was unreachable');
for (const [what, description] of [
  ['check', 'show what its files contain and whether they can be read; changes nothing'],
  ['dump', 'print its requests, one JSON object per line; changes nothing'],
  ['drain', 'hand its requests over to the database, then exit'],
] as const)
  withSettings(spools.command(what).description(description).argument('<dir>'), whichHeadgate).action(
    (folder: string, options: Record<string, string | true | undefined>) => spool(what, folder, options),
  );
program
  .command('send')
  .description('send a signed request as a known sender does, e.g. github')
  .argument('<sender>')
  .option('--url <url>', 'the URL of the table')
  .option('--signed-url <url>', 'the URL that the sender calls and signs, if a proxy is in front of Headgate')
  .option(
    '--secret <secret>',
    'what the sender signs with: the text of CREATE SECRET, or the private key (default: it is asked for on a terminal)',
  )
  .option('--secret-file <file>', 'the same, read from a file, - for standard input')
  .option('--answer-secret <text>', 'the second secret, for handshakes that need one')
  .option('--body <file>', 'send this body instead of an example; - reads it from standard input')
  .option('--id <text>', 'repeat one delivery: the same text gives the same delivery id')
  .option('--event <name>', "the event's name, e.g. push")
  .option('--header <line>', 'add or replace a header, e.g. "X-Test: yes"; may be repeated', several)
  .option('--count <n>', 'number of requests (default: 1)')
  .option('--rate <n/s>', 'start at most this many per second')
  .option('--now <time>', 'sign as if it were this time, e.g. 2026-03-04T05:06:07Z')
  .option(
    '--repeat <n>',
    'send the same delivery this many times, each signed again, as a sender that retries',
  )
  .option('--stale', 'sign with a time that is too old: a refusal is the right answer')
  .option('--tamper', 'send a body other than the signed one: a refusal is the right answer')
  .option('--handshake', 'ask what the sender asks before it delivers, and judge the answers as it would')
  .option('--print', 'print the request as a curl command, and send nothing')
  .option('--make-secret', 'print a new secret and the key that belongs to it, and send nothing')
  .action(send);

pointToOwnHelp(program, 'headgate');

/** An error of a command points to the help of that command. */
function pointToOwnHelp(command: Command, path: string): void {
  command.showHelpAfterError(`(see ${path} --help)`);
  for (const child of command.commands) pointToOwnHelp(child, `${path} ${child.name()}`);
}

export async function run(given: Invocation): Promise<void> {
  invoked = given;
  program.version(given.version);
  try {
    await program.parseAsync(given.argv);
  } catch (error) {
    for (const line of (await explain(error)).split('\n')) process.stderr.write(`headgate: ${line}\n`);
    process.exitCode = io?.signal.aborted === true ? 130 : 1;
  }
}
