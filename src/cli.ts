#!/usr/bin/env node
/**
 * argv → one command. With settings.ts's table the only reader of the command line and the environment, the owner of
 * signals and of the exit status: 0 after a clean stop, 1 with one line for everything that keeps Headgate from running.
 */
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { performance } from 'node:perf_hooks';
import { buffer } from 'node:stream/consumers';
import { Command, Option } from 'commander';
import { createLog } from './admin/log.ts';
import { banner, gatewayBanner } from './banner.ts';
import { EngineError } from './engine/engine.ts';
import { startGateway } from './gateway-main.ts';
import { GuardError } from './guard/guard-error.ts';
import { startService, StartError } from './main.ts';
import type { Observe } from './observations.ts';
import { rotateKey } from './rotate-key.ts';
import { MasterKeyError } from './secrets/master-key.ts';
import { sendCommand, SendError } from './senders/send.ts';
import type { SendOptions } from './senders/send.ts';
import { resolveSettings, SettingsError, settingsTable } from './settings.ts';
import type { ResolvedSettings, SettingName, Settings } from './settings.ts';

const rows = Object.entries(settingsTable) as [SettingName, (typeof settingsTable)[SettingName]][];

function withSettings(command: Command): Command {
  for (const [, row] of rows) {
    if (row.flag === null) continue;
    // What is off by default is switched on by naming it; what is on needs a word to be switched off.
    const value = row.default === false ? '' : ` <${row.value}>`;
    const none = row.default === null || row.default === false || String(row.default) === '';
    const shown = none ? '' : `, default ${String(row.default)}`;
    command.addOption(new Option(`--${row.flag}${value}`, `${row.help} (${row.env}${shown})`));
  }
  return command;
}

function settingsOf(options: Record<string, string | true | undefined>): ResolvedSettings {
  const flags: { [K in SettingName]?: string | true | undefined } = {};
  for (const [name, row] of rows) {
    const key = row.flag?.replaceAll(/-(.)/g, (_, letter: string) => letter.toUpperCase());
    if (key !== undefined) flags[name] = options[key];
  }
  return resolveSettings({ env: process.env, flags });
}

function logOf(settings: Settings): Observe {
  const pretty = settings.logFormat === 'pretty' || (settings.logFormat === 'auto' && process.stderr.isTTY);
  return createLog({
    level: settings.logLevel,
    format: pretty ? 'pretty' : 'json',
    now: Date.now,
    write: (line) => void process.stderr.write(line),
  });
}

async function start(options: Record<string, string | true | undefined>): Promise<void> {
  const { settings } = settingsOf(options);
  // Before the first await: a signal during the start must not leave an engine behind.
  const stopped = firstSignal();
  const service = await startService(settings, logOf(settings), version());
  reloadOnSignal(service.reload);
  process.stdout.write(banner(service, settings));
  await service.stop(await stopped);
}

async function gateway(options: Record<string, string | true | undefined>): Promise<void> {
  const { settings } = settingsOf(options);
  const stopped = firstSignal();
  const service = await startGateway(settings, logOf(settings), version());
  reloadOnSignal(service.reload);
  process.stdout.write(gatewayBanner(service, settings));
  await service.stop(await stopped);
}

async function operator(options: Record<string, string | true | undefined>): Promise<void> {
  const { settings } = settingsOf(options);
  const stopped = firstSignal();
  // Loaded only here: the Kubernetes client is larger than all of Headgate, and nobody else needs it.
  const { startOperator } = await import('./operate.ts');
  const running = await startOperator(settings, logOf(settings));
  await running.stop(await stopped);
}

/** Without certificates SIGHUP means what it always means: the terminal is gone. */
function reloadOnSignal(reload: (() => Promise<void>) | null): void {
  if (reload !== null) process.on('SIGHUP', () => void reload());
}

/** The first signal asks for a clean stop, a second one ends the process at once. */
function firstSignal(): Promise<string> {
  return new Promise((resolve) => {
    let asked = false;
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, () => {
        if (asked) process.exit(signal === 'SIGTERM' ? 143 : 130);
        asked = true;
        resolve(signal);
      });
    }
  });
}

function config(options: Record<string, string | true | undefined>): void {
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
    console.log(`${env.padEnd(widths[0] ?? 0)}  ${shown.padEnd(widths[1] ?? 0)}  ${origin}`);
  }
}

function rotate(options: Record<string, string | true | undefined>): Promise<void> {
  return rotateKey(settingsOf(options).settings, {
    say: (line) => void process.stdout.write(`${line}\n`),
    warn: (line) => void process.stderr.write(`headgate: ${line}\n`),
  });
}

async function send(sender: string, options: Omit<SendOptions, 'sender'>): Promise<void> {
  const interrupt = new AbortController();
  void firstSignal().then(() => interrupt.abort());
  process.exitCode = await sendCommand(
    { ...options, sender },
    {
      print: (text) => void process.stdout.write(text),
      note: (text) => void process.stderr.write(text),
      terminal: process.stderr.isTTY,
      read: (path) => (path === '-' ? buffer(process.stdin) : readFile(path)),
      clock: Date.now,
      elapsed: () => performance.now(),
      random: randomBytes,
      signal: interrupt.signal,
    },
  );
}

function version(): string {
  // From dist/src/ as from src/: the nearest package.json above.
  for (const path of ['../package.json', '../../package.json']) {
    try {
      return (JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as { version: string })
        .version;
    } catch {
      // Not there: the next one.
    }
  }
  return 'unknown';
}

/** Errors whose message was written for the terminal. Anything else is a bug and shows its stack. */
function explain(error: unknown): string {
  if (error instanceof StartError || error instanceof SettingsError) return error.message;
  if (error instanceof SendError || error instanceof GuardError) return error.message;
  if (error instanceof EngineError || error instanceof MasterKeyError) return error.message;
  const { code, syscall, port, address } = error as NodeJS.ErrnoException & {
    port?: number;
    address?: string;
  };
  if (syscall === 'listen') {
    const where = `${address ?? ''}:${port ?? ''}`;
    if (code === 'EADDRINUSE')
      return `${where} is in use by another program; choose another port (0 picks a free one)`;
    return `cannot listen on ${where}: ${code ?? 'unknown error'}`;
  }
  if (syscall !== undefined && error instanceof Error) return error.message;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

const program = new Command('headgate')
  .description('A webhook destination that is a SQL database.')
  .version(version())
  .showHelpAfterError('(headgate --help tells more)');
withSettings(program.command('start').description('start the service')).action(start);
withSettings(
  program
    .command('gateway')
    .description('start the events gateway alone, in front of the databases of EVENTS_API_<DB>_DSN'),
).action(gateway);
withSettings(
  program
    .command('operator')
    .description(
      'look after the Headgate resources of a Kubernetes cluster (KUBECONFIG, or the pod it runs in)',
    ),
).action(operator);
withSettings(
  program.command('config').description('print every setting, its value and where it came from'),
).action(config);
withSettings(
  program
    .command('secrets')
    .description('look after the key that seals secrets')
    .command('rotate-key')
    .description('seal every secret with a new master key; Headgate may be running'),
).action(rotate);
program
  .command('send')
  .description('send a signed request as a known sender does, e.g. github (docs/senders lists them)')
  .argument('<sender>')
  .option('--url <url>', 'the URL of the table')
  .option('--signed-url <url>', 'what the sender believes to call, where a proxy stands in front')
  .option('--secret <secret>', 'what the sender signs with: the text of CREATE SECRET, or the private key')
  .option('--secret-file <file>', 'the same, read from a file')
  .option('--body <file>', 'this body instead of an example; - reads it from standard input')
  .option('--count <n>', 'how many requests', '1')
  .option('--rate <n/s>', 'begin at most so many a second')
  .option('--now <time>', 'sign with this clock, e.g. 2026-03-04T05:06:07Z')
  .option('--make-secret', 'print a new secret and the key that belongs to it, and send nothing')
  .action(send);

try {
  await program.parseAsync(process.argv);
} catch (error) {
  for (const line of explain(error).split('\n')) process.stderr.write(`headgate: ${line}\n`);
  process.exitCode = 1;
}
