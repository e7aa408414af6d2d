/**
 * The everyday commands. Adds commands to commander's program; the code of a command is loaded when it runs. Part of the composition
 * root: the environment is read only through `Shell`.
 */
import type { Command } from 'commander';
import type { SettingName, Settings } from '../config/settings.ts';
import type { ExportOptions } from './export.ts';
import type { InferOptions } from './infer.ts';
import type { InitOptions } from './init.ts';
import type { CommandIo } from '../kit/terminal.ts';
import type { DeliverOptions } from './deliver.ts';
import type { ListenOptions } from './listen.ts';
import { pages } from './help-text.ts';
import type { ReplayOptions } from './replay.ts';
import type { TailOptions } from './console-commands.ts';
import type { WebsubOptions } from '../senders/websub.ts';
import type { Where, WhereOptions } from './find-headgate.ts';

type Given = Record<string, string | true | undefined>;

export interface Shell {
  readonly withDataDir: (command: Command) => Command;
  readonly withSettings: (command: Command, shown: readonly SettingName[]) => Command;
  readonly settings: (flags: Given) => Settings;
  /** Whether a flag or the environment names the data directory. */
  readonly namesDataDir: (flags: Given) => boolean;
  readonly version: () => string;
  /** A signal interrupts it. */
  readonly io: () => CommandIo;
  /** The command `secrets`. */
  readonly secrets: Command;
}

interface Placed extends WhereOptions {
  readonly dataDir?: string;
}

/** What the commands have in common. */
interface Making {
  readonly shell: Shell;
  readonly command: (words: string, description: string) => Command;
  /** A command that talks to a Headgate, here or elsewhere. */
  readonly placed: (command: Command) => Command;
  readonly where: (options: Placed) => Promise<Where>;
  /** The data directory of a Headgate that runs on this machine. */
  readonly dataDirOf: (options: Placed) => Promise<string>;
}

/** For commands that look at every database otherwise. */
const oneDatabase = [
  '--database <name>',
  'only this database (default: every one that Headgate serves; with --dsn or --profile the one that it names)',
] as const;

const several = (value: string, before: readonly string[] = []): readonly string[] => [...before, value];

const orElsewhere = (it: Command): Command =>
  it
    .option('--dsn <dsn>', 'a Headgate elsewhere: its SQL port, postgresql://…')
    .option('--url <url>', 'the URL at which that Headgate receives webhooks: scheme, host and port')
    .option('--profile <name>', '--dsn and --url, from ~/.config/headgate/profiles.json');

const trusting = (it: Command): Command =>
  it.option(
    '--trust-owner',
    "read it also if that runs code of a role that could not act as yours, such as its owner's: views, policies, expressions; it runs with your rights",
  );

const end = async (status: Promise<number>): Promise<void> => void (process.exitCode = await status);

export function registerCommands(program: Command, shell: Shell): void {
  const command = (words: string, description: string): Command =>
    program
      .command(words)
      .description(description)
      .addHelpText('after', pages[words.split(' ')[0] ?? ''] ?? '');
  const placed = (it: Command): Command => orElsewhere(shell.withDataDir(it));
  const where = async ({ dataDir, ...options }: Placed): Promise<Where> => {
    const [{ whereOf }, { withPassword }] = await Promise.all([
      import('./find-headgate.ts'),
      import('./password.ts'),
    ]);
    const elsewhere = options.dsn !== undefined || options.profile !== undefined;
    const flags = dataDir === undefined ? {} : { dataDir };
    const found = await whereOf(options, elsewhere ? shell.settings(flags).dataDir : await dataDirOf(flags));
    return withPassword(found, shell.settings(flags), shell.io());
  };
  /** The one that was named; or else the default one or, if no Headgate runs there, that of the only one that runs. */
  const dataDirOf = async ({ dataDir: given }: Placed): Promise<string> => {
    const flags = given === undefined ? {} : { dataDir: given };
    const { dataDir } = shell.settings(flags);
    if (shell.namesDataDir(flags)) return dataDir;
    const { onlyRunning, runningAt } = await import('../host/running.ts');
    if ((await runningAt(dataDir)) !== null) return dataDir;
    const found = await onlyRunning();
    if (found === null) return dataDir;
    process.stderr.write(`headgate: the Headgate on ${found.dataDir} (pid ${found.pid})\n`);
    return found.dataDir;
  };
  const making = { shell, command, placed, where, dataDirOf };
  endpointCommands(making);
  sendingCommands(making);
  readingCommands(making);
  agentCommands(making);
  websubCommands(making);
  secretCommands(making);
  machineCommands(program, making);
}

function endpointCommands({ shell, command, placed, where }: Making): void {
  shell
    .withDataDir(command('status', 'show the Headgates that run on this machine, and whether they are ready'))
    .option('--json', 'print one JSON object per line')
    .action(async ({ dataDir, json }: { dataDir?: string; json?: boolean }) => {
      const { statusCommand } = await import('./status.ts');
      const named = shell.namesDataDir({ dataDir }) ? shell.settings({ dataDir }).dataDir : null;
      await end(statusCommand(named, json === true, shell.io()));
    });

  placed(command('endpoints', 'list the webhook tables that you own or may look at'))
    .option(...oneDatabase)
    .option('--json', 'print one JSON object per line')
    .action(async (options: Placed & { json?: boolean }) => {
      const { endpointsCommand } = await import('./endpoints.ts');
      const { database, dsn, profile } = options;
      const which = [database, dsn, profile].every((it) => it === undefined) ? 'all' : 'one';
      await end(endpointsCommand(await where(options), which, options.json === true, shell.io()));
    });

  command('senders [word]', 'list the senders that Headgate knows, or those with this word in their name')
    .option('--json', 'print one JSON object per line')
    .action(async (word: string | undefined, { json }: { json?: boolean }) => {
      const { sendersCommand } = await import('./senders.ts');
      process.exitCode = sendersCommand(word, json === true, shell.io());
    });

  placed(command('init <sender>', 'create an endpoint for a known sender, and test it'))
    .option('--table <name>', 'the name of the table (default: the name of the sender and _events)')
    .option(
      '--secret-file <file>',
      "the sender's secret, - for standard input (default: it is asked for on a terminal, or made)",
    )
    .option('--no-wait', 'do not wait for the first real delivery')
    .option('--answer-secret-file <file>', 'the second secret, for handshakes that need one')
    .option('--json', 'print one JSON object')
    .action(async (sender: string, options: Placed & InitOptions) => {
      const { initCommand } = await import('./init.ts');
      await end(initCommand(await where(options), sender, options, shell.io()));
    });
}

function secretCommands({ shell, placed, where }: Making): void {
  placed(shell.secrets.command('list').description('list your secrets, without their values'))
    .option('--json', 'print one JSON object per line')
    .action(async (options: Placed & { json?: boolean }) => {
      const { listSecrets } = await import('./secrets.ts');
      await end(listSecrets(await where(options), options.json === true, shell.io()));
    });
  placed(
    shell.secrets
      .command('set <name>')
      .description('create or replace a secret; its value is typed or read from a file'),
  )
    .option('--secret-file <file>', 'the file with the value, - for standard input')
    .action(async (name: string, options: Placed & { secretFile?: string }) => {
      const { setSecret } = await import('./secrets.ts');
      await end(setSecret(await where(options), name, options.secretFile, shell.io()));
    });
}

function sendingCommands({ shell, command, placed, where }: Making): void {
  const signing = (it: Command): Command =>
    it
      .option('--sender <sender>', 'sign each request again, as this sender does')
      .option('--secret <secret>', "the sender's secret (default: it is asked for on a terminal)")
      .option('--secret-file <file>', 'the same, read from a file, - for standard input')
      .option('--allow-remote', 'allow sending to another machine')
      .option('--json', 'print one JSON object per line');

  signing(
    trusting(placed(command('listen [table...]', 'forward each new request to a program on this machine'))),
  )
    .requiredOption('--forward-to <url>', 'the URL of the program, e.g. http://localhost:3000/hook')
    .option('--state <file>', 'remember in this file what was sent, and continue from there')
    .action(async (tables: string[], options: Placed & ListenOptions) => {
      const { listenCommand } = await import('./listen.ts');
      await end(listenCommand(await where(options), tables, options, shell.io()));
    });

  trusting(
    placed(command('deliver <table>', 'send each row on, signed, until it has arrived (docs/deliver.md)')),
  )
    .requiredOption('--to <url>', 'the receiver; HEADGATE_DELIVER_HOSTS has to list its host')
    .requiredOption('--secret-file <file>', 'the secret of the signature, whsec_… of Standard Webhooks')
    .option('--column <name>', 'the column that is sent (default: data)')
    .option(
      '--id-column <name>',
      "the column with the delivery's id (default: the table's name and the row's id)",
    )
    .option(
      '--key <column>',
      'rows with the same value are sent one after the other, in the order of their ids',
    )
    .option('--concurrency <n>', 'deliveries at one time, 1 to 100 (default: 8)')
    .option('--attempts <n>', 'attempts for a row, 1 to 1000 (default: 10, over three days)')
    .option('--json', 'print one JSON object per line')
    .action(async (table: string, options: Placed & DeliverOptions) => {
      const { deliverCommand } = await import('./deliver.ts');
      await end(deliverCommand(await where(options), table, options, shell.settings({}), shell.io()));
    });

  signing(trusting(placed(command('replay <table>', 'send stored requests again'))))
    .requiredOption('--to <target>', 'a webhook table, or a URL on this machine')
    .option('--since <span>', 'only requests that arrived in this last span of time: 90s, 15m, 1h, 7d')
    .option('--where <condition>', 'only requests for which this SQL is true; the table is called t')
    .option('--rate <n/s>', 'start at most this many per second (default: 50)')
    .option('--keep-going', 'go on after ten requests in a row that were not answered with a 2xx')
    .action(async (table: string, options: Placed & ReplayOptions) => {
      const { replayCommand } = await import('./replay.ts');
      await end(replayCommand(await where(options), table, options, shell.io()));
    });
}

function readingCommands({ shell, command, placed, where, dataDirOf }: Making): void {
  trusting(placed(command('tail [table]', 'show requests and their outcomes as they arrive')))
    .option('--json', 'print one JSON object per line')
    .option('--failed', 'only refused requests')
    .option('-n, --lines <n>', 'begin with so many earlier requests (default: 10)')
    .option('--since <span>', 'begin with the earlier requests of this last span of time: 90s, 15m, 1h, 7d')
    .option('--body', "show their contents, too; on this machine only for tables with inspect = 'bodies'")
    .action(async (table: string | undefined, options: Placed & TailOptions) => {
      const given = { ...options, table };
      if (options.dsn !== undefined || options.profile !== undefined) {
        const { tailElsewhere } = await import('./tail.ts');
        return end(tailElsewhere(await where(options), given, shell.io()));
      }
      const { tailCommand } = await import('./console-commands.ts');
      const dataDir = await dataDirOf(options);
      if (table !== undefined) {
        const [{ refuseMissing }, { whereOf }] = await Promise.all([
          import('./tail.ts'),
          import('./find-headgate.ts'),
        ]);
        await refuseMissing(await whereOf({}, dataDir), table);
      }
      await end(tailCommand(dataDir, given, shell.io()));
    });

  shell
    .withDataDir(command('console', 'print a link that logs a browser in to the console'))
    .option('--open <page>', 'the page that the link opens: requests/r17, or an address of the console')
    .action(async (options: Placed & { open?: string }) => {
      const { consoleCommand } = await import('./console-commands.ts');
      process.stdout.write(`${await consoleCommand(await dataDirOf(options), options.open)}\n`);
    });

  placed(command('explain [id]', 'show why a request was refused, and what to do'))
    .option('--json', 'print one JSON object')
    .action(async (id: string | undefined, options: Placed & { json?: boolean }) => {
      const { explainCommand } = await import('./explain.ts');
      await end(explainCommand(await where(options), id ?? null, options.json === true, shell.io()));
    });

  trusting(placed(command('export <table>', 'write the rows of a table to standard output or a file')))
    .option('--format <format>', 'ndjson, csv or parquet', 'ndjson')
    .option(
      '--since <position>',
      'only rows written after this position; each export prints its own at the end',
    )
    .option('--state <file>', 'keep the position in this file: each run writes what is new')
    .option('--output <file>', 'the file to write; it appears once it is complete')
    .option('--json', 'report rows and position, on standard error, as one JSON object')
    .action(async (table: string, options: Placed & ExportOptions) => {
      const { exportCommand } = await import('./export.ts');
      await end(exportCommand(await where(options), table, options, process.stdout, shell.io()));
    });

  trusting(placed(command('infer [file]', 'print a CREATE TABLE that accepts documents like these')))
    .option('--name <table>', 'the name of the new table')
    .option('--table <table>', 'read the documents of this table instead of a file')
    .option('--column <column>', 'its column of documents (default: data or, without one, the whole row)')
    .option('--json', 'print one JSON object')
    .action(async (file: string | undefined, options: Placed & InferOptions) => {
      const { inferCommand } = await import('./infer.ts');
      await end(inferCommand(() => where(options), file, options, shell.io()));
    });

  placed(command('sql', 'open a prompt for SQL'))
    .option('-c, --command <sql>', 'run this and exit; may be repeated', several)
    .option('--json', 'print each row as one JSON object')
    .action(async (options: Placed & { readonly command?: readonly string[]; readonly json?: boolean }) => {
      const { sqlCommand } = await import('./sql.ts');
      const { stdin: input, stdout: output } = process;
      const typed = input.isTTY && output.isTTY;
      const { command = null, json = false } = options;
      await end(sqlCommand(await where(options), command, json, { input, output, typed }, shell.io()));
    });
}

function agentCommands({ shell, command, placed, where }: Making): void {
  placed(command('mcp', 'give an agent tools to look at webhooks: the Model Context Protocol, over stdio'))
    .option('--allow-write', 'with tools that retry and forget refused requests, and create endpoints')
    .action(async ({ allowWrite, ...options }: Placed & { readonly allowWrite?: boolean }) => {
      const { mcpCommand } = await import('./mcp/mcp.ts');
      const at = await where(options);
      await end(
        mcpCommand(
          at,
          allowWrite === true,
          shell.settings({}),
          shell.version(),
          process.stdin,
          process.stdout,
          shell.io(),
        ),
      );
    });
}

function websubCommands({ command, shell }: Making): void {
  command(
    'websub <topic>',
    'subscribe a table to a feed at its WebSub hub, and keep the subscription renewed',
  )
    .requiredOption('--callback <url>', 'the URL of the table, as the hub calls it')
    .option('--hub <url>', 'the hub to use instead of the one that the topic names')
    .option('--secret <secret>', 'what the hub must sign with: the text of CREATE SECRET')
    .option('--secret-file <file>', 'the same, read from a file')
    .option('--lease <time>', 'how long the subscription should last (default: 5 days)')
    .option('--every <time>', 'how often to renew it (default: twice per lease)')
    .option('--once', 'subscribe and exit')
    .option('--unsubscribe', 'end the subscription')
    .action(async (topic: string, options: Omit<WebsubOptions, 'topic'>) => {
      const [{ websubCommand }, { SendClient }, { setTimeout: pause }] = await Promise.all([
        import('../senders/websub.ts'),
        import('../senders/send-client.ts'),
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
  const doctor = command('doctor', 'look for problems on this machine and in the database');
  orElsewhere(shell.withSettings(doctor, ['dataDir', 'databaseUrl', 'masterKeyFile', 'publicUrl']))
    .option(...oneDatabase)
    .option('--json', 'print one JSON object per line')
    .option('--alert', 'send a test message to HEADGATE_ALERT_URL')
    .action(async ({ dsn, url, profile, database, json, alert, ...flags }: Given) => {
      const [{ doctorCommand }, { whereOf }, { withPassword }] = await Promise.all([
        import('./doctor.ts'),
        import('./find-headgate.ts'),
        import('./password.ts'),
      ]);
      const settings = shell.settings(flags);
      const elsewhere = Object.entries({ dsn, url, profile }).filter(
        ([, value]) => typeof value === 'string',
      );
      const io = shell.io();
      const one = typeof database === 'string' ? { database } : {};
      const at = whereOf({ ...(Object.fromEntries(elsewhere) as WhereOptions), ...one }, settings.dataDir);
      const local = elsewhere.length === 0;
      const which: 'all' | 'one' = local && typeof database !== 'string' ? 'all' : 'one';
      const named = local ? await at.catch(() => null) : await at;
      // A database that cannot be reached is a finding.
      const found = named === null ? null : await withPassword(named, settings, io).catch(() => named);
      const about = { version: shell.version(), local, which, json: json === true, alert: alert === true };
      await end(doctorCommand(found, settings, about, io));
    });

  command('completions <shell>', 'print the completion script for bash, zsh or fish').action(
    async (name: string) => {
      const { completionsOf } = await import('./completions.ts');
      process.stdout.write(completionsOf(program, name));
    },
  );
}
