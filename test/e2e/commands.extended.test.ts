/** The commands of every day in a terminal, with the words of docs/cli.md where the page has them. */
import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { asyncBufferFromFile, parquetReadObjects } from 'hyparquet';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { keys, openTerminal } from '../support/pty.ts';
import type { Terminal } from '../support/pty.ts';
import { root } from '../support/package.ts';
import { run } from '../support/run.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
const page = 'docs/cli.md';

/** Somebody at a keyboard, with `headgate` on PATH. */
class Person {
  readonly home: string;
  readonly #env: Readonly<Record<string, string>>;

  constructor(home: string, dataDir: string) {
    this.home = home;
    this.#env = {
      HOME: home,
      HEADGATE_DATA_DIR: dataDir,
      PATH: `${join(home, 'bin')}:${process.env['PATH'] ?? ''}`,
    };
  }

  /** A terminal in which the command runs. */
  open(t: TestContext, command: string): Terminal {
    const terminal = openTerminal(t, command, { cwd: this.home, env: this.#env });
    assert(terminal !== null);
    return terminal;
  }

  /** To its end. */
  async runs(t: TestContext, command: string, status = 0): Promise<string> {
    const terminal = this.open(t, command);
    assert.equal(await terminal.ended, status, terminal.screen);
    return terminal.screen;
  }

  /** Its standard output and standard error apart, without a terminal. */
  async pipes(command: string, input = '') {
    return run('sh', ['-c', command], { cwd: this.home, env: this.#env, input });
  }
}

async function personAt(t: TestContext, dataDir: string): Promise<Person> {
  const home = await temporaryFolder(t);
  await mkdir(join(home, 'bin'));
  await writeFile(join(home, 'bin', 'headgate'), `#!/bin/sh\nexec ${process.execPath} ${cli} "$@"\n`);
  await chmod(join(home, 'bin', 'headgate'), 0o755);
  return new Person(home, dataDir);
}

/** A program of the developer's that takes what `listen` sends on, and can be away. */
class Hook {
  readonly got: { readonly n: unknown; readonly table: string }[] = [];
  /** One that is free, and then that one. */
  port = 0;
  #server = createServer();

  static async open(t: TestContext): Promise<Hook> {
    const hook = new Hook();
    await hook.back();
    onEnd(t, 'hook', () => hook.away());
    return hook;
  }

  async back(): Promise<void> {
    this.#server = createServer((request, response) => {
      const pieces: Buffer[] = [];
      request.on('data', (piece: Buffer) => pieces.push(piece));
      request.on('end', () => {
        const body = JSON.parse(Buffer.concat(pieces).toString()) as { n?: unknown };
        this.got.push({ n: body.n, table: String(request.headers['headgate-table']) });
        response.writeHead(201).end(`got ${String(body.n)}\x1b[31m`);
      });
    });
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = (this.#server.address() as AddressInfo).port;
  }

  async away(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => void this.#server.close(resolve));
  }

  numbers(): unknown[] {
    return this.got.map(({ n }) => n);
  }
}

/** A delivery of GitHub's, of the number n. */
async function deliver(
  person: Person,
  secret: string,
  headgate: Headgate,
  n: number | undefined,
): Promise<void> {
  const { code, stdout, stderr } = await person.pipes(
    `headgate send github --url ${headgate.webhookUrl}/dev/public/pushes --secret ${secret} --body -`,
    JSON.stringify({ n }),
  );
  assert.equal(code, 0, `${stdout}${stderr}`);
}

test('commands work in a terminal with a running Headgate', { timeout: 240_000 }, async (t) => {
  if (requireTool(t, 'script') === null) return;
  const first = await startHeadgate(t);
  const person = await personAt(t, first.dataDir);
  const sql = async (text: string) => {
    const { code, stdout, stderr } = await person.pipes(`headgate sql --json`, text);
    assert.equal(code, 0, stderr);
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, string>);
  };
  let secret = '';
  let headgate = first;

  await t.test('headgate init creates an endpoint', async (step) => {
    const terminal = person.open(step, await commandsOf(page, 'init'));
    await terminal.shows(/cloudflared tunnel --url http:[^]*Paste the secret: [^]*Enter alone/);
    terminal.type('\r');
    await terminal.shows(/a test delivery: 200 and stored; its row was deleted again/);
    assert.match(terminal.screen, new RegExp(`URL +${headgate.webhookUrl}/dev/public/pushes`));
    await terminal.shows(/waiting for the first real delivery/);
    secret = /^ +secret +(\S+)/m.exec(terminal.screen)?.[1] ?? '';
    assert.notEqual(secret, '');
    await deliver(person, secret, headgate, undefined);
    assert.equal(await terminal.ended, 0, terminal.screen);
    assert.match(terminal.screen, /received\s+\d{4}-\d\d-\d\dT\S+Z {2}issues\s+\{\}/);
    assert.match(await person.runs(step, await commandsOf(page, 'init'), 1), /pushes already exists/);
    assert.deepEqual(await sql('SELECT count(*) AS n FROM pushes;'), [{ n: 1 }]);
  });

  await t.test('headgate endpoints lists tables here and by a profile', async (step) => {
    assert.match(await person.runs(step, 'headgate endpoints'), /pushes/);
    await mkdir(join(person.home, '.config', 'headgate'), { recursive: true });
    const profiles = join(person.home, '.config', 'headgate', 'profiles.json');
    const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
    await writeFile(profiles, JSON.stringify({ here: { dsn, url: 'https://hooks.example.com' } }), {
      mode: 0o644,
    });
    assert.match(await person.runs(step, 'headgate endpoints --profile here', 1), /can be read by others/);
    await chmod(profiles, 0o600);
    const { stdout } = await person.pipes('headgate endpoints --profile here --json');
    assert.match(stdout, /"https:\/\/hooks\.example\.com\/webhook\/dev\/public\/pushes"|pushes/);
    assert.match(await person.runs(step, 'headgate endpoints --profile there', 1), /its profiles: here/);
  });

  await t.test('headgate tail prints requests as they arrive', async (step) => {
    const terminal = person.open(step, await commandsOf(page, 'tail'));
    const line = terminal.shows(/401 +dev\.public\.pushes +signature_failed/);
    let isThere = false;
    void line.then(() => (isThere = true)).catch(() => (isThere = true));
    // Only what comes behind the beginning is shown.
    await until(async () => {
      await headgate.post('dev/public/pushes', '{}');
      return isThere;
    });
    await line;
    terminal.type(keys.interrupt);
    await terminal.ended;
  });

  await t.test('headgate tail of a remote Headgate prints stored and refused requests', async (step) => {
    const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
    const terminal = person.open(step, `headgate tail pushes --body --dsn ${dsn}`);
    const stored = terminal.shows(/stored +dev\.public\.pushes +\d+ B\n[^]*"n": ?0/);
    let isThere = false;
    void stored.then(() => (isThere = true)).catch(() => (isThere = true));
    await until(async () => {
      await deliver(person, secret, headgate, 0);
      return isThere;
    });
    await stored;
    const refused = terminal.shows(/401 +dev\.public\.pushes +signature_failed +\d+ B[^]*"who": 1/);
    let isRefused = false;
    void refused.then(() => (isRefused = true)).catch(() => (isRefused = true));
    await until(async () => {
      await headgate.post('dev/public/pushes', '{"who": 1}');
      return isRefused;
    });
    await refused;
    terminal.type(keys.interrupt);
    assert.equal(await terminal.ended, 130, terminal.screen);
    await sql(`DELETE FROM pushes WHERE data->>'n' = '0' RETURNING 1 AS n;`);
  });

  await t.test(
    'headgate listen survives restarts of Headgate, of the local program and of itself',
    async (step) => {
      const hook = await Hook.open(step);
      const command = (await commandsOf(page, 'listen')).replace('localhost:3000', `127.0.0.1:${hook.port}`);
      let terminal = person.open(step, command);
      await terminal.shows(/listening to "public"\."pushes"/);
      await deliver(person, secret, headgate, 1);
      await terminal.shows(/201 +public\.pushes +\d+ B +\d+ ms +got 1\\u\{1b\}\[31m/);

      await hook.away();
      await deliver(person, secret, headgate, 2);
      await terminal.shows(/waiting for http/);
      await deliver(person, secret, headgate, 3);
      await hook.back();
      await terminal.shows(/got 3/);

      await headgate.signal('SIGTERM');
      await terminal.shows(/waiting for Headgate/);
      headgate = await startHeadgate(t, { dataDir: first.dataDir, args: headgate.samePorts });
      await deliver(person, secret, headgate, 4);
      await terminal.shows(/listening again[^]*got 4/);

      terminal.type(keys.interrupt);
      assert.equal(await terminal.ended, 130, terminal.screen);
      await deliver(person, secret, headgate, 5);
      terminal = person.open(step, command);
      await terminal.shows(/got 5/);
      await deliver(person, secret, headgate, 6);
      await terminal.shows(/got 6/);
      terminal.type(keys.interrupt);
      assert.equal(await terminal.ended, 130);
      assert.deepEqual(hook.numbers(), [1, 2, 3, 4, 5, 6]);
      assert.equal(hook.got[0]?.table, 'public.pushes');
    },
  );

  await t.test('headgate replay sends stored requests again', async (step) => {
    const hook = await Hook.open(step);
    const command = (await commandsOf(page, 'replay')).replace('localhost:3000', `127.0.0.1:${hook.port}`);
    const screen = await person.runs(step, command);
    assert.match(screen, /7 of 7 sent\n +201: 7/);
    // The first is the delivery that `init` made.
    assert.deepEqual(hook.numbers(), [undefined, 1, 2, 3, 4, 5, 6]);
    const slow = person.open(step, `headgate replay pushes --to http://127.0.0.1:${hook.port}/ --rate 1`);
    await slow.shows(/1\/7/);
    slow.type(keys.interrupt);
    assert.equal(await slow.ended, 130, slow.screen);
    assert.match(slow.screen, /of 7 sent/);
    const refused = await person.runs(step, 'headgate replay pushes --to pushes', 1);
    assert.match(refused, /401: 7/);
    await sql(`CREATE SECRET again WITH (backend = 'meta') AS '${secret}';
      CREATE TABLE again (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET again USING github; SELECT 1 AS made;`);
    const signed = `headgate replay pushes --to again --sender github --secret ${secret}`;
    const only = `--where "data->>'n' >= '4' -- those"`;
    assert.match(await person.runs(step, `${signed} ${only}`), /3 of 3 sent\n +200: 3/);
    assert.deepEqual(await sql(`SELECT sum((data->>'n')::int) AS n FROM again;`), [{ n: 15 }]);
  });

  await t.test('headgate explain prints why a request was refused', async (step) => {
    const command = await commandsOf(page, 'explain');
    let screen = '';
    // Refused requests are written down behind the answer, and of many only some.
    await until(async () => {
      const { status } = await headgate.post('dev/public/pushes', '{"forged":"\\u001b[2J"}');
      assert.equal(status, 401);
      screen = await person.runs(step, command);
      return screen.includes('forged');
    });
    assert.match(screen, /pushes/);
    assert.match(screen, /signature_failed/);
    assert.match(await person.runs(step, 'headgate explain 999999', 1), /999999/);
  });

  await t.test('headgate export writes all rows, and later only the new ones', async (step) => {
    const command = await commandsOf(page, 'export');
    await person.runs(step, command);
    const file = join(person.home, 'pushes.ndjson');
    const rows = (text: string) => text.split('\n').filter((line) => line !== '');
    const whole = rows(await readFile(file, 'utf8'));
    assert.equal(whole.length, 7);
    await deliver(person, secret, headgate, 8);
    // The documented command a second time: what was there stays.
    await person.runs(step, command);
    const all = rows(await readFile(file, 'utf8'));
    assert.deepEqual(all.slice(0, 7), whole);
    assert.deepEqual(
      all.slice(7).map((line) => (JSON.parse(line) as { data: { n: number } }).data),
      [{ n: 8 }],
    );
    const { stdout } = await person.pipes('headgate export pushes --format csv');
    assert.equal(rows(stdout).length, 9);
    await person.runs(step, await commandsOf(page, 'parquet'));
    const parquet = await asyncBufferFromFile(join(person.home, 'pushes.parquet'));
    assert.equal((await parquetReadObjects({ file: parquet })).length, 8);
    assert.match(
      await person.runs(step, 'headgate export pushes --format parquet', 1),
      /not shown on a terminal/,
    );
  });

  await t.test('headgate infer prints a CREATE TABLE that works', async (step) => {
    const command = await commandsOf(page, 'infer');
    assert.match(await person.runs(step, command), /CREATE TABLE rows_again/);
    const { stdout } = await person.pipes(command);
    await person.pipes('headgate sql', stdout);
    assert.deepEqual(await sql("SELECT to_regclass('rows_again')::text AS made;"), [{ made: 'rows_again' }]);
  });

  await t.test('headgate sql runs statements from arguments and from a terminal', async (step) => {
    assert.match(await person.runs(step, await commandsOf(page, 'sql')), /\{"pushes":8\}/);
    const terminal = person.open(step, 'headgate sql');
    await terminal.shows(/headgate=> $/);
    terminal.type('SELECT 12345678901234567890.10 AS n,\r');
    await terminal.shows(/headgate-> $/);
    terminal.type("E'\\x1b[2J' AS text;\r");
    await terminal.shows(/12345678901234567890\.10 +\\u\{1b\}\[2J\n\(1 row\)/);
    terminal.type('\\d pushes\r');
    await terminal.shows(/received_at +timestamp with time zone/);
    terminal.type('SELECT nothing\r');
    await terminal.shows(/headgate-> $/);
    terminal.type(keys.interrupt);
    await terminal.shows(/\^C[^]*headgate=> $/);
    terminal.type("CREATE SECRET later WITH (backend = 'meta') AS 'hidden-word';\r");
    await terminal.shows(/CREATE[^]*headgate=> $/);
    terminal.type('SELECT nowhere;\r');
    await terminal.shows(/ERROR: {2}column "nowhere" does not exist/);
    terminal.type('\\q\r');
    assert.equal(await terminal.ended, 0, terminal.screen);
    const history = await readFile(join(person.home, '.config', 'headgate', 'sql-history'), 'utf8');
    assert.match(history, /^SELECT nowhere;$/m);
    assert.doesNotMatch(history, /hidden-word/);
    const recalled = person.open(step, 'headgate sql');
    await recalled.shows(/headgate=> $/);
    recalled.type('\x1b[A\x1b[A');
    await recalled.shows(/SELECT nowhere;/);
    recalled.type(keys.interrupt);
    recalled.type(keys.end);
    assert.equal(await recalled.ended, 0, recalled.screen);
  });

  await t.test('headgate doctor reports its findings', async (step) => {
    const screen = await person.runs(step, await commandsOf(page, 'doctor'));
    for (const what of ['disk', 'flush', 'webhooks', 'clock', 'versions'])
      assert.match(screen, new RegExp(`^ok +${what} `, 'm'));
    assert.match(screen, /^ok +ports +open: listen \d+, sql \d+, gateway \d+, admin \d+$/m);
    const taken = `--listen-host=127.0.0.1 --listen-port=${headgate.ports.listen.port}`;
    const none = await person.runs(step, `headgate doctor --data-dir ${person.home}/none ${taken}`, 1);
    assert.match(none, /^WRONG +ports +127\.0\.0\.1:\d+ is in use by another program/m);
  });

  await t.test('headgate completions works when sourced by the shells', async (step) => {
    for (const [shell, ask] of [
      ['bash', 'source <(headgate completions bash); complete -p headgate'],
      [
        'zsh',
        'autoload -U compinit; compinit -D; source <(headgate completions zsh); print -r -- ${_comps[headgate]}',
      ],
      ['fish', 'headgate completions fish | source; complete -C "headgate rep"'],
    ] as const) {
      const tool = requireTool(step, shell);
      if (tool === null) continue;
      const { code, stdout, stderr } = await person.pipes(`${shell} -c '${ask}'`);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /headgate|replay/, shell);
    }
  });

  await t.test('every headgate command has help text', async (step) => {
    step.diagnostic(sampleSeed);
    const names = [...(await readFile(join(root, page), 'utf8')).matchAll(/^\| `(\w+)` \|/gm)].map(
      ([, name]) => name ?? '',
    );
    assert.ok(names.length > 10);
    // Its own options: start alone lists all settings.
    const all = (await person.pipes('headgate start --help')).stdout;
    assert.match(all, /--spool-bytes[^]*--logical-replication|--logical-replication[^]*--spool-bytes/);
    const others = [
      'move',
      'gateway',
      'config',
      'spool dump',
      'spool check',
      'secrets set',
      'secrets rotate-key',
    ];
    for (const name of [...sampleOf(names, 3), ...sampleOf(others, 2)]) {
      const { code, stdout } = await person.pipes(`headgate ${name} --help`);
      assert.equal(code, 0);
      if (names.includes(name)) assert(stdout.split('\n').length > 8, `${name}: ${stdout}`);
      assert(stdout.length < all.length / 2, `${name}: ${stdout}`);
      assert.doesNotMatch(stdout, /--spool-bytes|--logical-replication/, name);
    }
  });
});
