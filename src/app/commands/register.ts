/**
 * The commands of every day, as the command line has them. Takes commander's program, gives it commands whose code is loaded when one
 * is run. Part of the composition root: what is read of the environment comes through `Shell`.
 */
import type { Command } from 'commander';
import type { Settings } from '../../tables/settings.ts';
import type { ExportOptions } from './export.ts';
import type { InferOptions } from './infer.ts';
import type { InitOptions } from './init.ts';
import type { CommandIo } from '../../kit/terminal.ts';
import type { ListenOptions } from './listen.ts';
import { pages } from './pages.ts';
import type { ReplayOptions } from './replay.ts';
import type { TailOptions } from '../console-commands.ts';
import type { SqlOptions } from './sql.ts';
import type { WebsubOptions } from '../../senders/websub.ts';
import type { Where, WhereOptions } from './where.ts';

type Given = Record<string, string | true | undefined>;

export interface Shell {
  readonly withDataDir: (command: Command) => Command;
  readonly withSettings: (command: Command) => Command;
  readonly settings: (flags: Given) => Settings;
  readonly version: () => string;
  /** Interrupted by a signal. */
  readonly io: () => CommandIo;
}

interface Placed extends WhereOptions {
  readonly dataDir?: string;
}

/** Ways to say what the commands have in common. */
interface Making {
  readonly shell: Shell;
  readonly command: (words: string, description: string) => Command;
  /** One that speaks to a Headgate, here or elsewhere. */
  readonly placed: (command: Command) => Command;
  readonly where: (options: Placed) => Promise<Where>;
}

const end = async (status: Promise<number>): Promise<void> => void (process.exitCode = await status);

export function registerCommands(program: Command, shell: Shell): void {
  const command = (words: string, description: string): Command =>
    program
      .command(words)
      .description(description)
      .addHelpText('after', pages[words.split(' ')[0] ?? ''] ?? '');
  const placed = (it: Command): Command =>
    shell
      .withDataDir(it)
      .option('--dsn <dsn>', 'a Headgate elsewhere: its SQL port, postgresql://…')
      .option('--url <url>', 'where that one takes webhooks: scheme, host and port')
      .option('--profile <name>', 'both, from ~/.config/headgate/profiles.json');
  const where = async ({ dataDir, ...options }: Placed): Promise<Where> => {
    const { whereOf } = await import('./where.ts');
    return whereOf(options, shell.settings({ dataDir }).dataDir);
  };
  const making = { shell, command, placed, where };
  endpointCommands(making);
  sendingCommands(making);
  readingCommands(making);
  websubCommands(making);
  machineCommands(program, making);
}

function endpointCommands({ shell, command, placed, where }: Making): void {
  placed(command('endpoints', 'list the webhook tables that are yours'))
    .option('--json', 'one JSON object a line')
    .action(async (options: Placed & { json?: boolean }) => {
      const { endpointsCommand } = await import('./endpoints.ts');
      await end(endpointsCommand(await where(options), options.json === true, shell.io()));
    });

  placed(command('init <sender>', 'make an endpoint for a known sender, and try it'))
    .option('--table <name>', 'what to call the table (default: the sender and _events)')
    .option('--secret-file <file>', "the sender's secret; default: one that is made up")
    .option('--answer-secret-file <file>', 'the second secret that the answers to some questions need')
    .option('--json', 'one JSON object')
    .action(async (sender: string, options: Placed & InitOptions) => {
      const { initCommand } = await import('./init.ts');
      await end(initCommand(await where(options), sender, options, shell.io()));
    });
}

function sendingCommands({ shell, command, placed, where }: Making): void {
  const signing = (it: Command): Command =>
    it
      .option('--sender <sender>', 'sign each request anew as this sender does')
      .option('--secret <secret>', 'what it signs with')
      .option('--secret-file <file>', 'the same, read from a file')
      .option('--allow-remote', 'send requests to another machine, too')
      .option('--json', 'one JSON object a line');

  signing(placed(command('listen [table...]', 'send each new request on to a program on this machine')))
    .requiredOption('--forward-to <url>', 'where to, e.g. http://localhost:3000/hook')
    .option('--state <file>', 'remember in this file what was sent, and go on from there')
    .action(async (tables: string[], options: Placed & ListenOptions) => {
      const { listenCommand } = await import('./listen.ts');
      await end(listenCommand(await where(options), tables, options, shell.io()));
    });

  signing(placed(command('replay <table>', 'send stored requests once more')))
    .requiredOption('--to <target>', 'a webhook table, or a URL of this machine')
    .option('--since <span>', 'those that arrived in it: 90s, 15m, 1h, 7d')
    .option('--where <condition>', 'those for which this SQL is true; the table is called t')
    .option('--rate <n/s>', 'begin at most so many a second (default: 50)')
    .action(async (table: string, options: Placed & ReplayOptions) => {
      const { replayCommand } = await import('./replay.ts');
      await end(replayCommand(await where(options), table, options, shell.io()));
    });
}

function readingCommands({ shell, command, placed, where }: Making): void {
  placed(command('tail [table]', 'show what becomes of requests, as they come'))
    .option('--json', 'one JSON object a line')
    .option('--failed', 'only those that were refused')
    .option('--body', "with what they held; here of tables with inspect = 'bodies'")
    .action(async (table: string | undefined, options: Placed & TailOptions) => {
      const given = { ...options, table };
      if (options.dsn !== undefined || options.profile !== undefined) {
        const { tailElsewhere } = await import('./tail.ts');
        return end(tailElsewhere(await where(options), given, shell.io()));
      }
      const { tailCommand } = await import('../console-commands.ts');
      await tailCommand(shell.settings({ dataDir: options.dataDir }).dataDir, given, shell.io());
    });

  placed(command('explain [id]', 'say why a request was refused, and what to do'))
    .option('--json', 'one JSON object')
    .action(async (id: string | undefined, options: Placed & { json?: boolean }) => {
      const { explainCommand } = await import('./explain.ts');
      await end(explainCommand(await where(options), id ?? null, options.json === true, shell.io()));
    });

  placed(command('export <table>', 'write the rows of a table to standard output or a file'))
    .option('--format <format>', 'ndjson, csv or parquet', 'ndjson')
    .option('--since <position>', 'only what is new since then; each export says its position at the end')
    .option('--state <file>', 'keep the position in this file: each run writes what is new')
    .option('--output <file>', 'the file to write; it is there when it is complete')
    .option('--json', 'tell rows and position, on standard error, as one JSON object')
    .action(async (table: string, options: Placed & ExportOptions) => {
      const { exportCommand } = await import('./export.ts');
      await end(exportCommand(await where(options), table, options, process.stdout, shell.io()));
    });

  placed(command('infer [file]', 'print the CREATE TABLE that takes documents like these'))
    .option('--name <table>', 'what to call the table')
    .option('--table <table>', 'look at the documents of this table instead of a file')
    .option('--column <column>', 'its column (default: data)')
    .option('--json', 'one JSON object')
    .action(async (file: string | undefined, options: Placed & InferOptions) => {
      const { inferCommand } = await import('./infer.ts');
      await end(inferCommand(() => where(options), file, options, shell.io()));
    });

  placed(command('sql', 'a prompt for SQL'))
    .option('-c, --command <sql>', 'run this, and end')
    .option('--json', 'each row as one JSON object')
    .action(async (options: Placed & SqlOptions) => {
      const { sqlCommand } = await import('./sql.ts');
      const { stdin: input, stdout: output } = process;
      const typed = input.isTTY && output.isTTY;
      await end(sqlCommand(await where(options), options, { input, output, typed }, shell.io()));
    });
}

function websubCommands({ command, shell }: Making): void {
  command('websub <topic>', 'subscribe a table to a feed at its WebSub hub, and renew that before it ends')
    .requiredOption('--callback <url>', 'the URL of the table, as the hub calls it')
    .option('--hub <url>', 'the hub, instead of the one that the topic names')
    .option('--secret <secret>', 'what the hub is to sign with: the text of CREATE SECRET')
    .option('--secret-file <file>', 'the same, read from a file')
    .option('--lease <time>', 'how long the subscription is to last (default: 5 days)')
    .option('--every <time>', 'how often it is renewed (default: twice a lease)')
    .option('--once', 'subscribe, and end')
    .option('--unsubscribe', 'end the subscription')
    .action(async (topic: string, options: Omit<WebsubOptions, 'topic'>) => {
      const [{ websubCommand }, { SendClient }, { setTimeout: pause }] = await Promise.all([
        import('../../senders/websub.ts'),
        import('../../senders/send-client.ts'),
        import('node:timers/promises'),
      ]);
      const io = shell.io();
      const client = new SendClient();
      const { signal } = io;
      const waiting = (ms: number) => pause(ms, undefined, { signal }).catch(() => undefined);
      try {
        const how = { ...io, client, random: Math.random, pause: waiting };
        await end(websubCommand({ ...options, topic }, how));
      } finally {
        client.close();
      }
    });
}

function machineCommands(program: Command, { shell, command }: Making): void {
  shell
    .withSettings(command('doctor', 'look for what is wrong, on this machine and in the database'))
    .option('--dsn <dsn>', 'a Headgate elsewhere: its SQL port, postgresql://…')
    .option('--url <url>', 'where that one takes webhooks: scheme, host and port')
    .option('--profile <name>', 'both, from ~/.config/headgate/profiles.json')
    .option('--json', 'one JSON object a line')
    .option('--alert', 'send a trial message to HEADGATE_ALERT_URL')
    .action(async ({ dsn, url, profile, json, alert, ...flags }: Given) => {
      const [{ doctorCommand }, { whereOf }] = await Promise.all([
        import('./doctor.ts'),
        import('./where.ts'),
      ]);
      const settings = shell.settings(flags);
      const elsewhere = Object.entries({ dsn, url, profile }).filter(
        ([, value]) => typeof value === 'string',
      );
      const at = whereOf(Object.fromEntries(elsewhere) as WhereOptions, settings.dataDir);
      const local = elsewhere.length === 0;
      const found = local ? await at.catch(() => null) : await at;
      const about = { version: shell.version(), local, json: json === true, alert: alert === true };
      await end(doctorCommand(found, settings, about, shell.io()));
    });

  command('completions <shell>', 'print what bash, zsh or fish need to complete this command line').action(
    async (name: string) => {
      const { completionsOf } = await import('./completions.ts');
      process.stdout.write(completionsOf(program, name));
    },
  );
}
