/** The commands as people of psql and gh expect them: on a terminal and in a pipe, judged by psql where it does the same. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startHeadgate } from '../support/headgate.ts';
import { keys, openTerminal } from '../support/pty.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
// oxlint-disable-next-line no-control-regex
const colour = /\u001b\[\d+m/;

const words = (args: readonly string[]) => args.map((arg) => `'${arg.replaceAll("'", `'\\''`)}'`).join(' ');

test(
  'commands print for people on a terminal and for programs in a pipe',
  { timeout: 240_000 },
  async (t) => {
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    await client.query(`
    CREATE TABLE seen (data JSONB) INCLUDE TIMESTAMP AS at
      WITH (connector = 'webhook') VALIDATE AS secure_compare(headers->>'key', 'k');
    CREATE TABLE typed (id BIGINT, name TEXT) INCLUDE TIMESTAMP AS at WITH (connector = 'webhook')`);
    const home = headgate.dataDir;
    const at = `--data-dir=${headgate.dataDir}`;
    const env = { PATH: process.env['PATH'] ?? '', HOME: home };
    const headgateRuns = (args: readonly string[], more: Readonly<Record<string, string>> = {}, input = '') =>
      run(process.execPath, [cli, ...args], { env: { ...env, ...more }, input });
    const onTerminal = (step: TestContext, args: readonly string[], columns = 160, more = {}) =>
      openTerminal(step, words([process.execPath, cli, ...args]), {
        cwd: home,
        env: { HOME: home, ...more },
        columns,
      });
    const post = async (body: string, key = 'k') =>
      (await headgate.post('dev/public/seen', body, { key })).status;

    await t.test('headgate sql prints errors and notices as psql does', async (step) => {
      if (requireTool(step, 'psql') === null) return;
      const psql = [
        '-X',
        '-h',
        '127.0.0.1',
        '-p',
        String(headgate.ports.sql.port),
        '-U',
        'root',
        '-d',
        'dev',
      ];
      for (const sql of [
        'SELECT 1 FORM x y',
        'SELECT 1;\nSELECT ä, ö FROM nowhere;\nSELECT 2',
        "SELECT\n\t'é' || nothing",
        "SELECT 'a'::int",
        'SELECT 1/0',
        'SELEC',
        "INSERT INTO seen (nope) VALUES ('{}')",
      ]) {
        const [ours, theirs] = await Promise.all([
          headgateRuns(['sql', at, '-c', sql]),
          run('psql', [...psql, '-c', sql]),
        ]);
        const error = (text: string) => /^ERROR:[^]*/m.exec(text)?.[0];
        assert.equal(error(ours.stderr), error(theirs.stderr), sql);
        assert.equal(ours.code, 1);
      }
      await client.query('CREATE TABLE known (data JSONB)');
      const again = `CREATE TABLE IF NOT EXISTS known (data JSONB) WITH (connector = 'webhook')`;
      const ours = await headgateRuns(['sql', at, '-c', again]);
      const theirs = await run('psql', [...psql, '-c', again]);
      assert.match(theirs.stderr, /^NOTICE: .*\nDETAIL: .*\nHINT: .*\n$/);
      assert.equal(ours.stderr.replace(/^CREATE\n/m, ''), theirs.stderr);
    });

    await t.test('headgate sql prints typed JSON as PostgreSQL writes it', async () => {
      const values = `12345678901234567890::numeric AS n, 1.50 AS d, 7::bigint AS i, true AS b, NULL AS nothing, ARRAY[1,2] AS list,
      '{"a": 1.0}'::jsonb AS doc, 'NaN'::float8 AS nan, '2026-01-02 03:04:05.5Z'::timestamptz AS at, timestamp '2026-01-02' AS day`;
      const { rows } = await client.query<{ text: string }>(
        `SELECT row_to_json(r)::text AS text FROM (SELECT ${values}) r`,
      );
      const { code, stdout } = await headgateRuns(['sql', at, '--json', '-c', `SELECT ${values}`]);
      assert.equal(code, 0);
      // PostgreSQL spells UTC as +00:00.
      assert.equal(stdout.trim(), rows[0]?.text.replace('+00:00', 'Z'));
    });

    await t.test('headgate sql supports \\d, \\dt, exit and several statements', async (step) => {
      const listed = await headgateRuns(['sql', at, '-c', '\\dt', '-c', '\\d typed']);
      assert.match(listed.stdout, /public +seen +table[^]*id +bigint/);
      const unknown = await headgateRuns(['sql', at, '-c', '\\nope']);
      assert.deepEqual(
        [unknown.code, unknown.stderr],
        [1, 'there is no command \\nope: \\? shows the commands\n'],
      );
      const on = await headgateRuns(['sql', at, '-c', '\\nope', '-c', 'SELECT 1 AS still']);
      assert.deepEqual([on.code, /still/.test(on.stdout)], [1, true]);

      // As psql says it.
      const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
      const psql = await run('psql', ['-X', dsn, '-c', '\\d nothere']);
      const missing = await headgateRuns(['sql', at, '-c', '\\d nothere']);
      assert.deepEqual([missing.code, missing.stdout, missing.stderr], [1, '', psql.stderr]);
      const made = `CREATE TABLE shown (data jsonb, n int GENERATED ALWAYS AS ((data->>'n')::int) STORED, id bigint GENERATED BY DEFAULT AS IDENTITY);
      CREATE SECRET shown_secret WITH (backend = 'meta') AS 'k';
      CREATE TABLE hooked (data jsonb) WITH (connector = 'webhook') VALIDATE SECRET shown_secret USING github`;
      assert.equal((await headgateRuns(['sql', at, '-c', made])).code, 0);
      const of = async (name: string) => (await headgateRuns(['sql', at, '-c', `\\d ${name}`])).stdout;
      const shown = await of('shown');
      const default_ = (await run('psql', ['-X', '-A', '-t', dsn, '-c', '\\d shown'])).stdout.split('\n');
      for (const line of default_.filter((it) => it.includes('generated'))) {
        const said = line.split('|').at(-1) ?? '';
        assert(shown.includes(said), said);
      }
      assert.doesNotMatch(shown, /indexes|validate/);
      assert.match(
        await of('hooked'),
        /validate +url\n[^]*x-hub-signature-256[^]*\/webhook\/dev\/public\/hooked\n/,
      );
      assert.match((await headgateRuns(['sql', at, '-c', '\\l'])).stdout, /^dev +root +UTF8/m);
      assert.match((await headgateRuns(['sql', at, '-c', '\\dn'])).stdout, /^public +/m);
      const piped = await headgateRuns(['sql', at, '--json'], {}, 'SELECT 1 AS a;\nexit\nSELECT 2 AS a;\n');
      assert.deepEqual([piped.code, piped.stdout], [0, '{"a":1}\n']);
      for (const last of ['exit', 'quit', '\\q']) {
        const terminal = onTerminal(step, ['sql', at]);
        if (terminal === null) return;
        await terminal.shows(/headgate=> /);
        terminal.type(`${last}\r`);
        assert.equal(await terminal.ended, 0);
      }
    });

    await t.test(
      'headgate tail says that it follows, and begins with as many requests as -n says',
      async (step) => {
        for (const [body, key] of [
          ['1', 'k'],
          ['22', 'no'],
          ['333', 'k'],
          ['4444', 'k'],
        ] as const)
          await post(body, key);
        const terminal = onTerminal(step, ['tail', 'seen', at, '-n', '2']);
        if (terminal === null) return;
        await terminal.shows(/following requests to seen; Ctrl-C ends[^]* 4 B /);
        assert.match(terminal.screen, / 3 B [^]* 4 B /);
        assert.doesNotMatch(terminal.screen, / [12] B /);
        await post('55555');
        await terminal.shows(/200 {2}dev\.public\.seen {2}.* 5 B /);
        assert.match(terminal.raw, colour);
        await post('{"wrong":1}', 'no');
        const [, id = ''] = await terminal.shows(
          /401 {2}dev\.public\.seen {2}.* 11 B .*refused request (\d+)$/m,
        );
        terminal.type(keys.interrupt);
        assert.equal(await terminal.ended, 130);
        const explained = await headgateRuns(['explain', id, at]);
        assert.match(explained.stdout, new RegExp(`^Request ${id} to public\\.seen, [^]*\\{"wrong":1\\}`));

        const since = onTerminal(step, ['tail', 'seen', at, '--failed', '--since', '1h', '--json']);
        const shown = (await since?.shows(/^\{.*"bytes":11,.*\}$/m))?.[0] ?? '{}';
        const {
          at: time,
          received_at: received,
          id: kept,
          status,
        } = JSON.parse(shown) as Record<string, unknown>;
        assert.deepEqual([String(kept), status], [id, 401]);
        for (const text of [time, received]) assert.match(String(text), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
        since?.type(keys.interrupt);
        // Kept before it is answered, because its id is that of another delivery.
        await client.query(`CREATE TABLE once (data JSONB) WITH (connector = 'webhook', dedupe = 'header:x-id')
      VALIDATE AS secure_compare(headers->>'key', 'k')`);
        const apart = onTerminal(step, ['tail', 'once', at]);
        await apart?.shows(/following/);
        for (const body of ['1', '22'])
          await headgate.post('dev/public/once', body, { key: 'k', 'x-id': 'a' });
        const [, kept202 = ''] =
          (await apart?.shows(/delivery_differs {2}2 B .*refused request (\d+)$/m)) ?? [];
        apart?.type(keys.interrupt);
        const differs = `SELECT id::int AS id FROM headgate.rejected_requests WHERE code = 'delivery_differs'`;
        assert.deepEqual((await client.query(differs)).rows, [{ id: Number(kept202) }]);
        const none = onTerminal(step, ['tail', 'seen', at, '--since', '1h', '-n', '0']);
        await none?.shows(/following/);
        await post('666666');
        await none?.shows(/ 6 B /);
        assert.doesNotMatch(none?.screen ?? '', / 5 B /);
        none?.type(keys.interrupt);
        for (const args of [
          ['-n', 'many'],
          ['--since', 'long'],
        ]) {
          const wrong = await headgateRuns(['tail', at, ...args]);
          assert.equal(wrong.code, 1);
          assert.match(wrong.stderr, /is not a (?:number of requests|span of time)/);
        }
      },
    );

    await t.test(
      'headgate tail --dsn prints earlier rows in order, and refused requests with --failed',
      async (step) => {
        const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
        const terminal = onTerminal(step, ['tail', 'seen', '--dsn', dsn, '-n', '4']);
        if (terminal === null) return;
        await terminal.shows(/stored {2}dev\.public\.seen {2}4 B\n[^]* 5 B\n[^]* 6 B\n/);
        assert.doesNotMatch(terminal.screen, / 3 B/);
        await post('7777777');
        await terminal.shows(/ 7 B\n/);
        terminal.type(keys.interrupt);
        assert.equal(await terminal.ended, 130);
        const failed = onTerminal(step, ['tail', 'seen', '--dsn', dsn, '--failed', '--since', '1d']);
        await failed?.shows(
          /401 {2}dev\.public\.seen {2}signature_failed {2}2 B {2}\S+ {2}refused request \d+: Signature/,
        );
        failed?.type(keys.interrupt);
      },
    );

    await t.test(
      'commands use colours on a terminal only, and follow NO_COLOR and FORCE_COLOR',
      async (step) => {
        const plainly = await headgateRuns(['status', at]);
        assert.doesNotMatch(plainly.stdout, colour);
        assert.match((await headgateRuns(['status', at], { FORCE_COLOR: '1' })).stdout, colour);
        const terminals = [{}, { NO_COLOR: '1' }, { TERM: 'dumb' }, { FORCE_COLOR: '0' }].map((more) =>
          onTerminal(step, ['status', at], 160, more),
        );
        const seen = [];
        for (const terminal of terminals) {
          if (terminal === null) return;
          await terminal.ended;
          assert.match(terminal.screen, /ready/);
          seen.push(colour.test(terminal.raw));
        }
        assert.deepEqual(seen, [true, false, false, false]);
      },
    );

    await t.test(
      'printed tables fit the terminal, URLs stay whole, and pipes get full values',
      async (step) => {
        const wide = 'SELECT repeat(chr(120), 300) AS long, 1 AS short';
        const terminal = onTerminal(step, ['sql', at, '-c', wide], 70);
        if (terminal === null) return;
        await terminal.ended;
        assert.ok(
          terminal.screen.split('\n').every((line) => line.length <= 70),
          terminal.screen,
        );
        assert.match(terminal.screen, /x… {2}1\n/);
        assert.match((await headgateRuns(['sql', at, '-c', wide])).stdout, /x{300} {2}1\n/);
        const endpoints = onTerminal(step, ['endpoints', at], 70);
        await endpoints?.ended;
        assert.match(endpoints?.screen ?? '', /^ {2}http:\/\/127\.0\.0\.1:\d+\/webhook\/dev\/public\/seen$/m);
      },
    );

    await t.test(
      'headgate infer reads tables with a document column and tables with typed columns',
      async () => {
        await client.query(`INSERT INTO seen (data) VALUES ('{"a": 1, "b": "x"}')`);
        await client.query(`INSERT INTO typed VALUES (1, 'one'), (2, 'two')`);
        const typed = await headgateRuns(['infer', '--table', 'typed', at]);
        assert.equal(typed.code, 0, typed.stderr);
        assert.equal(
          typed.stdout,
          "CREATE TABLE typed (\n  id BIGINT PRIMARY KEY,\n  name TEXT\n) WITH (connector = 'webhook');\n",
        );
        const documents = await headgateRuns(['infer', '--table', 'seen', '--name', 'again', at]);
        assert.match(documents.stdout, /a BIGINT[^]*b TEXT/);
        await client.query(documents.stdout);
        const wrong = await headgateRuns(['infer', '--table', 'typed', '--column', 'nope', at]);
        assert.deepEqual(
          [wrong.code, wrong.stderr],
          [1, 'headgate: typed has no column nope; it has id, name, at\n'],
        );
      },
    );

    await t.test(
      'headgate senders finds senders by a part of a name or another name, and hints at USING for others',
      async () => {
        const git = await headgateRuns(['senders', 'git', '--json']);
        const ids = git.stdout
          .trim()
          .split('\n')
          .map((line) => (JSON.parse(line) as { id: string }).id);
        assert.deepEqual(ids, ['gitea', 'github', 'github_sha1', 'gitlab', 'gitlab_signed']);
        assert.match((await headgateRuns(['senders', 'whatsapp'])).stdout, /^meta /m);
        assert.match((await headgateRuns(['senders', 'stytch'])).stdout, /^svix .* stytch/m);
        const hint = await headgateRuns(['senders', 'gmail']);
        assert.equal(hint.code, 1);
        assert.match(hint.stderr, /USING google_pubsub/);
        assert.ok((await headgateRuns(['senders'])).stdout.split('\n').length > 140);
      },
    );

    await t.test(
      'a usage error names the help of its command, and headgate explain --json has typed fields',
      async () => {
        const unknown = await headgateRuns(['tail', '--nope']);
        assert.equal(unknown.code, 1);
        assert.match(unknown.stderr, /\(see headgate tail --help\)/);
        const spool = await headgateRuns(['spool', 'check', '/nonexistent/spool']);
        assert.equal(spool.code, 1);
        const set = await headgateRuns(['secrets', 'set', '--nope']);
        assert.match(set.stderr, /\(see headgate secrets set --help\)/);
        const explained = await headgateRuns(['explain', '--json', at]);
        const {
          id,
          headers,
          received_at: at8601,
          body_bytes: bytes,
        } = JSON.parse(explained.stdout) as {
          id: unknown;
          headers: unknown;
          received_at: string;
          body_bytes: unknown;
        };
        assert.deepEqual([typeof id, typeof headers, typeof bytes], ['number', 'object', 'number']);
        assert.match(at8601, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
      },
    );
  },
);
