/**
 * `headgate sql`: a prompt for SQL without psql. Statements end with a semicolon; values are shown as the database writes them, with every digit.
 * Takes lines from a terminal, a pipe or -c; returns the exit status: 1 if a statement of -c or of a pipe failed.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import type { FieldDef } from 'pg';
import { splitStatements } from '../ddl/scanner.ts';
import { PlainError } from '../kit/plain-error.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import { plain, shownJson } from '../kit/terminal.ts';
import { addRow, encodersOf } from '../gateway/row-text.ts';
import { goneType } from '../gateway/sql-types.ts';
import { aligned, isoTime } from './print.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { connect, foreignCatalog } from './session.ts';
import type { CommandSession } from './session.ts';
import { historyFile, calledUrl } from './find-headgate.ts';
import type { Where } from './find-headgate.ts';

interface SqlInput {
  readonly input: Readable;
  readonly output: NodeJS.WritableStream;
  /** A person types. */
  readonly typed: boolean;
}

interface Result {
  readonly command: string | null;
  readonly rowCount: number | null;
  readonly fields: readonly FieldDef[];
  readonly rows: readonly (readonly (string | null)[])[];
}

/**
 * `commands`: run one after the other; a statement that fails ends them, a command that begins with a backslash does not. null: what is typed or
 * piped.
 */
export async function sqlCommand(
  where: Where,
  commands: readonly string[] | null,
  json: boolean,
  from: SqlInput,
  io: CommandIo,
): Promise<number> {
  const session = await connect(where.dsn, 'sql');
  const prompt = new Prompt(session, where, json, io);
  session.client.on('notice', ({ severity = 'NOTICE', message = '', detail, hint }) => {
    io.note(`${severity}:  ${plain(message)}\n`);
    noteMore(io, detail, hint);
  });
  try {
    let status = 0;
    for (const command of commands ?? []) {
      if (await prompt.runOne(command)) continue;
      status = 1;
      if (!isBackslash(command)) break;
    }
    if (commands !== null) return status;
    return from.typed ? await prompt.talk(from) : await prompt.readAll(from.input);
  } finally {
    await session.close();
  }
}

function noteMore(io: CommandIo, detail: string | undefined, hint: string | undefined): void {
  if (detail !== undefined) io.note(`DETAIL:  ${plain(detail)}\n`);
  if (hint !== undefined) io.note(`HINT:  ${plain(hint)}\n`);
}

const help = `\\d          tables and views        \\d NAME   its columns and indexes, check and URL
\\dt         tables                  \\endpoints  webhook tables
\\l          databases               \\dn         schemas
\\x          one value per line: on or off
\\q, exit    quit                    ;          ends a statement
`;

/** Without a semicolon, as in psql. */
const isExit = (line: string): boolean => /^\s*(?:\\q|exit|quit)\s*;?\s*$/i.test(line);

const isBackslash = (text: string): boolean => text.trim().startsWith('\\');

class Prompt {
  readonly #session: CommandSession;
  readonly #where: Where;
  readonly #json: boolean;
  readonly #io: CommandIo;
  #expanded = false;
  #pending = '';

  constructor(session: CommandSession, where: Where, json: boolean, io: CommandIo) {
    this.#session = session;
    this.#where = where;
    this.#json = json;
    this.#io = io;
  }

  /** Lines of a person, until \q, Ctrl-D, or the connection ends. */
  async talk({ input, output }: SqlInput): Promise<number> {
    const history = (await readFile(historyFile(), 'utf8').catch(() => ''))
      .split('\n')
      .filter((line) => line !== '');
    const lines = createInterface({
      input,
      output,
      history: history.toReversed(),
      historySize: limits.promptHistoryMax,
      prompt: '',
    });
    const ask = (): void => {
      lines.setPrompt(this.#pending === '' ? 'headgate=> ' : 'headgate-> ');
      lines.prompt();
    };
    lines.on('SIGINT', () => {
      this.#pending = '';
      output.write('^C\n');
      lines.setPrompt('headgate=> ');
      // Delete what was typed but not sent: move to the end of the line, and delete back to its beginning.
      lines.write('', { ctrl: true, name: 'e' });
      lines.write('', { ctrl: true, name: 'u' });
      ask();
    });
    output.write('Type \\? for help, \\q to quit.\n');
    ask();
    for await (const line of lines) {
      if (line.trim() !== '' && !holdsSecret(line) && history.at(-1) !== line) history.push(line);
      if (/^\s*\\q\s*$/.test(line) || (this.#pending === '' && isExit(line))) break;
      await this.#line(line);
      ask();
    }
    lines.close();
    await keepHistory(history);
    return 0;
  }

  async readAll(input: Readable): Promise<number> {
    const pieces: Buffer[] = [];
    let bytes = 0;
    for await (const piece of input as AsyncIterable<Buffer>) {
      bytes += piece.length;
      if (bytes > limits.bodyBytesMax) throw new PlainError('standard input is too long');
      pieces.push(piece);
    }
    let done = true;
    for (const line of Buffer.concat(pieces).toString('utf8').split('\n')) {
      if (this.#pending === '' && isExit(line)) return done ? 0 : 1;
      done = (await this.#line(line)) && done;
    }
    return (await this.#flush()) && done ? 0 : 1;
  }

  /** Statements, or one command that begins with a backslash. */
  runOne(text: string): Promise<boolean> {
    return isBackslash(text) ? this.#backslash(text.trim()) : this.run(text);
  }

  /** false: a statement failed. */
  async #line(line: string): Promise<boolean> {
    if (this.#pending === '' && line.trimStart().startsWith('\\')) return this.#backslash(line.trim());
    this.#pending += this.#pending === '' ? line : `\n${line}`;
    // The splitter expects one character per byte.
    const text = Buffer.from(this.#pending).toString('latin1');
    const statements = splitStatements(text, true);
    const last = statements.at(-1);
    if (last === undefined) this.#pending = '';
    return last === undefined || last.semicolon === null ? true : this.#flush();
  }

  async #flush(): Promise<boolean> {
    const sql = this.#pending;
    this.#pending = '';
    return sql.trim() === '' ? true : this.run(sql);
  }

  async #backslash(line: string): Promise<boolean> {
    const [, word = '', name = ''] = /^\\(\S+)\s*(.*?);?$/.exec(line) ?? [];
    if (word === 'x') {
      this.#expanded = !this.#expanded;
      this.#io.print(`one value per line: ${this.#expanded ? 'on' : 'off'}\n`);
    } else if (word === 'endpoints') return this.run('SHOW ENDPOINTS');
    else if (['l', 'l+'].includes(word)) return this.run(databases);
    else if (['dn', 'dn+'].includes(word)) return this.run(schemas);
    else if (['d', 'dt', 'd+', 'dt+'].includes(word)) {
      const kinds = word.startsWith('dt') ? ['r', 'p'] : ['r', 'p', 'v', 'm'];
      return name === '' ? this.run(relationsOf(kinds)) : this.#describe(name);
    } else if (['?', 'h', 'help'].includes(word)) this.#io.print(help);
    else if (word !== 'q') {
      this.#io.note(`there is no command \\${plain(word)}: \\? shows the commands\n`);
      return false;
    }
    return true;
  }

  async #describe(name: string): Promise<boolean> {
    const found = await this.#query(
      `SELECT c.oid::pg_catalog.text, n.nspname, c.relname, pg_catalog.current_database(),
  pg_catalog.to_regclass('headgate.webhook_table') IS NOT NULL AND NOT EXISTS (${foreignCatalog})
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(${quoteLiteral(name)})::pg_catalog.oid`,
    );
    if (found === null) return false;
    const [row] = found.flatMap(({ rows }) => rows);
    if (row === undefined) {
      this.#io.note(`Did not find any relation named "${plain(name)}".\n`);
      return false;
    }
    const [oid = '', schema, table, database, hasCatalog] = row.map((value) => value ?? '');
    if (!(await this.run(columnsOf(oid)))) return false;
    if (!(await this.#runUnlessEmpty(indexesOf(oid)))) return false;
    if (hasCatalog !== 't') return true;
    const where = { ...this.#where, url: this.#where.url ?? '' };
    return this.#runUnlessEmpty(checkOf(oid, calledUrl(where, database ?? '', schema ?? '', table ?? '')));
  }

  /** Shows no heading without a row. */
  async #runUnlessEmpty(sql: string): Promise<boolean> {
    const results = await this.#query(sql);
    for (const result of results ?? []) if (result.rows.length > 0) this.#show(result);
    return results !== null;
  }

  /** Returns whether every statement succeeded. */
  async run(sql: string): Promise<boolean> {
    const results = await this.#query(sql);
    for (const result of results ?? []) this.#show(result);
    return results !== null;
  }

  /** null: it failed, which is shown. */
  async #query(sql: string): Promise<readonly Result[] | null> {
    try {
      const answer: unknown = await this.#session.client.query({ text: sql, rowMode: 'array' });
      return (Array.isArray(answer) ? answer : [answer]) as Result[];
    } catch (error) {
      const { message, hint, detail, position } = error as {
        message: string;
        hint?: string;
        detail?: string;
        position?: string;
      };
      this.#io.note(`ERROR:  ${plain(message === '' ? 'the connection was lost' : message)}\n`);
      if (position !== undefined) this.#io.note(markedLine(sql, Number(position)));
      noteMore(this.#io, detail, hint);
      return null;
    }
  }

  #show({ command, rowCount, fields, rows }: Result): void {
    const { print, note } = this.#io;
    const names = fields.map(({ name }) => name);
    if (names.length === 0) {
      if (!this.#json && command !== null) note(`${command}${rowCount === null ? '' : ` ${rowCount}`}\n`);
    } else if (this.#json) {
      const encoders = encodersOf(fields, () => goneType) ?? [];
      const sink = { add: (text: string) => print(`${shownJson(text)}\n`), addLarge: () => undefined };
      for (const row of rows) addRow(sink, encoders, row.map(timesIso(fields)), true);
    } else if (this.#expanded) {
      for (const row of rows) print(`${expanded(names, row)}\n`);
    } else {
      print(aligned([names.map(plain), ...rows.map((row) => row.map(cell))], this.#io));
      note(`(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})\n`);
    }
  }
}

/** One value per line. */
function expanded(names: readonly string[], row: readonly (string | null)[]): string {
  const width = Math.max(...names.map((name) => plain(name).length));
  return names.map((name, i) => `${plain(name).padEnd(width)}  ${cell(row[i])}\n`).join('');
}

/** For JSON: `timestamp`, with a zone or without, as ISO 8601. */
function timesIso(fields: readonly FieldDef[]): (value: string | null, column: number) => string | null {
  return (value, column) => {
    const type = fields[column]?.dataTypeID;
    return value !== null && (type === 1114 || type === 1184) ? isoTime(value) : value;
  };
}

/** Longer lines are shown around the place. */
const lineCharsMax = 60;

/** As psql does: the line with the character at `position` (from 1), and a caret below it. */
function markedLine(sql: string, position: number): string {
  // PostgreSQL counts code points.
  const chars = Array.from(sql);
  const at = position - 1;
  if (!Number.isInteger(at) || at < 0 || at > chars.length) return '';
  const begin = chars.lastIndexOf('\n', at - 1) + 1;
  const next = chars.indexOf('\n', at);
  const line = chars.slice(begin, next === -1 ? chars.length : next).map((char) => (char < ' ' ? ' ' : char));
  const number = chars.slice(0, begin).filter((char) => char === '\n').length + 1;
  const column = at - begin;
  const from =
    line.length <= lineCharsMax ? 0 : Math.max(0, Math.min(column - 30, line.length - lineCharsMax));
  const to = Math.min(line.length, from + lineCharsMax);
  const label = `LINE ${number}: ${from > 0 ? '...' : ''}`;
  const shown = plain(line.slice(from, to).join(''));
  const before = plain(line.slice(from, column).join(''));
  return `${label}${shown}${to < line.length ? '...' : ''}\n${' '.repeat(label.length + Array.from(before).length)}^\n`;
}

/**
 * `kinds`: of pg_class.relkind. Runs under the search_path of the session: every operand has the type that PostgreSQL's own operator takes.
 */
const relationsOf = (kinds: readonly string[]): string => `SELECT n.nspname AS schema, c.relname AS name,
  CASE c.relkind WHEN 'r' THEN 'table' WHEN 'p' THEN 'partitioned table' WHEN 'v' THEN 'view' ELSE 'materialized view' END AS kind,
  pg_catalog.pg_get_userbyid(c.relowner) AS owner
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN (${kinds.map(quoteLiteral).join(', ')}) AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast', 'headgate') ORDER BY 1, 2`;

/** As psql names them: a generated column by its expression, an identity by its kind. */
const columnsOf = (
  oid: string,
): string => `SELECT a.attname AS "column", pg_catalog.format_type(a.atttypid, a.atttypmod) AS type,
  CASE WHEN a.attnotnull THEN 'not null' ELSE '' END AS "null",
  CASE WHEN a.attidentity::pg_catalog.text = 'a' THEN 'generated always as identity'
    WHEN a.attidentity::pg_catalog.text = 'd' THEN 'generated by default as identity'
    WHEN a.attgenerated::pg_catalog.text = '' THEN coalesce(pg_catalog.pg_get_expr(d.adbin, d.adrelid, true), '')
    ELSE pg_catalog.concat('generated always as (', pg_catalog.pg_get_expr(d.adbin, d.adrelid, true), ')',
      CASE WHEN a.attgenerated::pg_catalog.text = 's' THEN ' stored' END) END AS "default"
FROM pg_catalog.pg_attribute a LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ${oid}::pg_catalog.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`;

const indexesOf = (
  oid: string,
): string => `SELECT pg_catalog.pg_get_indexdef(i.indexrelid) AS indexes FROM pg_catalog.pg_index i
WHERE i.indrelid = ${oid}::pg_catalog.oid`;

/** Of a webhook table. */
const checkOf = (
  oid: string,
  url: string,
): string => `SELECT coalesce(w.expression, 'none: anybody can write') AS validate, ${quoteLiteral(url)} AS url
FROM headgate.webhook_table w WHERE w.relation::pg_catalog.oid = ${oid}::pg_catalog.oid AND headgate.sees_table(w.relation)`;

const databases = `SELECT d.datname AS name, pg_catalog.pg_get_userbyid(d.datdba) AS owner,
  pg_catalog.pg_encoding_to_char(d.encoding) AS encoding, d.datcollate AS "collate" FROM pg_catalog.pg_database d ORDER BY 1`;

const schemas = `SELECT n.nspname AS name, pg_catalog.pg_get_userbyid(n.nspowner) AS owner FROM pg_catalog.pg_namespace n
WHERE NOT pg_catalog.starts_with(n.nspname::pg_catalog.text, 'pg_') AND n.nspname <> 'information_schema' ORDER BY 1`;

function cell(value: string | null | undefined): string {
  if (value === null || value === undefined) return 'NULL';
  const text = plain(value.slice(0, limits.promptCellCharsMax));
  return value.length > limits.promptCellCharsMax ? `${text}…` : text;
}

/** Lines with keys and passwords are not kept. */
function holdsSecret(line: string): boolean {
  return /secret|password|token|key\b|identified/i.test(line);
}

/** If the file cannot be written, no history is kept. */
async function keepHistory(history: readonly string[]): Promise<void> {
  const file = historyFile();
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    await writeFile(file, `${history.slice(-limits.promptHistoryMax).join('\n')}\n`, { mode: 0o600 });
  } catch {
    // For example, a read-only home directory.
  }
}
