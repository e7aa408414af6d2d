/** The SQL door in front of a real PostgreSQL, with the command-line and Python clients: psql and psycopg. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fooProcedure, openTestDoor, type TestDoor } from '../../test/support/wire-door.ts';
import { findTool, requireTool, skipFor } from '../../test/support/tools.ts';
import { startServer, type TestServer } from '../../test/support/server.ts';

let server: TestServer;
let door: TestDoor;
let folder: string;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'hg-wire-clients-'));
  server = await startServer();
  door = await openTestDoor({ kind: 'unix', path: server.socket });
  if (findTool('psql') !== null) await psql(['-c', fooProcedure]);
});
after(async () => {
  await door.door.close();
  await server.close();
  rmSync(folder, { recursive: true, force: true });
});

interface Result {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

function run(
  command: string,
  args: readonly string[],
  input = '',
  during?: (pid: number) => void,
): Promise<Result> {
  return new Promise((resolve, reject) => {
    const child = spawn(findTool(command) ?? command, args, {
      cwd: folder,
      env: { PATH: process.env['PATH'], LC_ALL: 'C.UTF-8', PSQL_PAGER: '' },
    });
    let [out, err] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()));
    child.on('error', reject);
    child.on('close', (code) => resolve({ code, out, err }));
    child.stdin.end(input);
    during?.(child.pid!);
  });
}

const target = (port: number): string[] => [
  '-X',
  '-h',
  '127.0.0.1',
  '-p',
  String(port),
  '-U',
  'root',
  '-d',
  'postgres',
];
const psql = (args: readonly string[], input = '', during?: (pid: number) => void): Promise<Result> =>
  run('psql', [...target(door.port), ...args], input, during);
const direct = (args: readonly string[]): Promise<Result> =>
  run('psql', ['-X', '-h', server.socketDir, '-U', 'root', '-d', 'postgres', ...args]);

test('psql through the SQL port runs rewritten statements and \\d, and shows error carets at the right place', async (t) => {
  if (requireTool(t, 'psql') === null) return;
  const made = await psql(['-c', 'FOO p1', '-c', '\\d p1', '-c', 'select 1; FOO p2; select 2']);
  assert.equal(made.err, '');
  assert.match(made.out, /^CREATE_FOO\n/);
  assert.match(made.out, /Table "public.p1"/);
  assert.match(made.out, /CREATE_FOO\n \?column\?/);
  const native = "select 'é', nothing from p1";
  assert.equal((await psql(['-c', native])).err, (await direct(['-c', native])).err);
  const refused = await psql(['-c', "select 'éé'; BAD word"]);
  assert.match(refused.err, /ERROR: {2}no "word"\nLINE 1: select 'éé'; BAD word\n {25}\^\nHINT: {2}a hint/);
  const inner = await psql(['-c', 'FOO PROC nowhere.x']);
  assert.equal(
    inner.err,
    'ERROR:  schema "nowhere" does not exist\nLINE 1: FOO PROC nowhere.x\n                 ^\n',
  );
});

test('psql through the SQL port copies both ways, runs COPY in a script, and shows COPY errors', async (t) => {
  if (requireTool(t, 'psql') === null) return;
  const rows = Array.from({ length: 200_000 }, (_, n) => `${n}\tvalue ${n}\n`).join('');
  writeFileSync(join(folder, 'rows.tsv'), rows);
  const script = [
    'create table c (n int, t text);',
    '\\copy c from rows.tsv',
    'FOO copied;',
    'copy copied from stdin;',
    '1',
    '2',
    '\\.',
    'select sum(a) from copied;',
    'copy copied from stdin;',
    'x',
    '\\.',
    '\\copy (select * from c order by n) to out.tsv',
    'FOO PROC after_copy;',
  ].join('\n');
  writeFileSync(join(folder, 'script.sql'), script);
  const result = await psql(['-At', '-f', 'script.sql']);
  assert.match(result.err, /invalid input syntax for type integer: "x"/);
  const out = ['CREATE TABLE', 'COPY 200000', 'CREATE_FOO', 'COPY 2', '3', 'COPY 200000', 'CREATE_FOO', ''];
  assert.equal(result.out, out.join('\n'));
  assert.equal(readFileSync(join(folder, 'out.tsv'), 'utf8'), rows);
});

test('psql through the SQL port supports FETCH_COUNT, AUTOCOMMIT off, \\gexec and \\watch', async (t) => {
  if (requireTool(t, 'psql') === null) return;
  const script = [
    '\\set FETCH_COUNT 100',
    'select sum(n) from (select n from generate_series(1, 1000) n) s;',
    'select n from generate_series(1, 1000) n;',
    '\\unset FETCH_COUNT',
    '\\set AUTOCOMMIT off',
    'FOO uncommitted;',
    'rollback;',
    '\\set AUTOCOMMIT on',
    "select to_regclass('uncommitted') is null;",
    "select 'FOO g' || n from generate_series(1, 2) n \\gexec",
  ].join('\n');
  const result = await psql(['-At'], script);
  assert.equal(result.err, '');
  assert.equal(result.out.split('\n').length, 1 + 1000 + 5 + 1);
  assert.match(result.out, /\nCREATE_FOO\nROLLBACK\nt\nCREATE_FOO\nCREATE_FOO\n$/);
  // \watch goes on until a row makes it fail.
  const watched = await psql(
    ['-At', '-v', 'ON_ERROR_STOP=1'],
    "create sequence w;\nselect 10 / (3 - nextval('w')) \\watch 0.01\n",
  );
  assert.equal(watched.out.split('\n').filter((line) => /^\d+$/.test(line)).length, 2);
  assert.match(watched.err, /division by zero/);
});

test('Ctrl-C in psql cancels the statement on the SQL port, and the session goes on', async (t) => {
  if (requireTool(t, 'psql') === null) return;
  const running = async (): Promise<void> => {
    for (;;) {
      const asked = await direct([
        '-Atc',
        "select count(*) from pg_stat_activity where wait_event = 'PgSleep'",
      ]);
      if (asked.out === '1\n') return;
    }
  };
  const interrupts: Promise<void>[] = [];
  const result = await psql(['-At'], 'select pg_sleep(60);\nselect 7;\n', (pid) => {
    interrupts.push(running().then(() => void process.kill(pid, 'SIGINT')));
  });
  await Promise.all(interrupts);
  // psql ends a script at an interrupt; what counts is that the engine was told.
  assert.match(result.err, /canceling statement due to user request/);
});

const python = '/usr/bin/python3';
const hasPsycopg = spawnSync(python, ['-c', 'import psycopg']).status === 0;

test('psycopg through the SQL port supports prepared statements, pipelines, COPY and client encodings', async (t) => {
  if (requireTool(t, 'psql') === null) return;
  if (!hasPsycopg) return skipFor(t, 'psycopg');
  const program = `
import psycopg, sys
with psycopg.connect(sys.argv[1], autocommit=True) as c:
    cur = c.execute("FOO py1"); print(cur.statusmessage)
    cur = c.execute("FOO PROC py2", prepare=True); print(cur.statusmessage)
    with c.cursor().copy("copy py1 from stdin") as copy:
        for n in range(1000): copy.write_row((n,))
    print(c.execute("select count(*), %s::text from py1", ("x",)).fetchone())
    with c.cursor().copy("copy py1 to stdout") as copy:
        print(sum(1 for _ in copy.rows()))
    try: c.execute("BAD word")
    except psycopg.Error as e: print(e.sqlstate, e.diag.message_primary, e.diag.statement_position)
    with c.pipeline() as p:
        cursors = [c.execute("select %s::int", (n,)) for n in range(50)] + [c.execute("FOO py3")]
        p.sync()
        print(sum(x.fetchone()[0] for x in cursors[:50]), cursors[50].statusmessage)
    try:
        with c.pipeline() as p:
            c.execute("FOO py4"); c.execute("BAD word"); c.execute("select 1"); p.sync()
    except psycopg.Error as e: print(e.diag.message_primary)
    with c.transaction():
        with c.cursor(name="named") as named:
            named.execute("select generate_series(1, 500)"); print(len(named.fetchmany(10)), len(named.fetchall()))
    c.execute("set client_encoding to latin1")
    try: c.execute("select 'éé'; BAD word")
    except psycopg.Error as e: print(e.diag.statement_position)
`;
  const dsn = `host=127.0.0.1 port=${door.port} user=root dbname=postgres`;
  const result = await run(python, ['-c', program, dsn]);
  // Which statement of a failed pipeline psycopg is reading when it gives up is a matter of moments; it logs one of them.
  assert.equal(result.err.replace(/^error ignored terminating .*: pipeline aborted\n/, ''), '');
  assert.deepEqual(result.out.split('\n'), [
    'CREATE_FOO',
    'CREATE_FOO',
    "(1000, 'x')",
    '1000',
    '42601 no "word" 5',
    '1225 CREATE_FOO',
    'no "word"',
    '10 490',
    '18',
    '',
  ]);
});
