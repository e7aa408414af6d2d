/**
 * What the stand-in does with one statement: refuse it as RisingWave does, answer it without the database, or run it translated for
 * PostgreSQL. Each rule names its place in RisingWave's source. Takes latin1 views of bytes; pure.
 */
import { splitStatements } from '../../../src/ddl/scanner.ts';
import type { StatementText } from '../../../src/ddl/scanner.ts';
import { createTable, structs } from './tables.ts';
import type { Struct } from './tables.ts';
import { noPrepare, notImplemented, notParsed, noTransaction } from './words.ts';

export type Plan =
  /** Detected while the text is parsed: none of it is run. */
  | { readonly kind: 'unparsed'; readonly message: string }
  | { readonly kind: 'refused'; readonly message: string }
  | { readonly kind: 'answered'; readonly tag: string; readonly notice?: string }
  | { readonly kind: 'set'; readonly name: string; readonly value: string }
  | {
      readonly kind: 'run';
      readonly sql: string;
      readonly structs: readonly Struct[];
      readonly word: string;
    };

/** The statements that parse_statement knows (src/sqlparser/src/parser.rs); any other is "expected statement". */
const known = new Set(
  (
    'explain analyze select with values declare fetch close truncate refresh create replace discard drop delete insert update alter copy ' +
    'set show cancel kill describe grant revoke start abort begin commit rollback deallocate execute prepare comment flush wait backup ' +
    'recover use vacuum ('
  ).split(' '),
);

/** Session parameters of RisingWave that change what a statement guarantees (src/common/src/session_config/mod.rs). */
const ownParameters = new Set(['dml_wait_persistence', 'implicit_flush', 'rw_implicit_flush']);

/** An INSERT without any of these words needs no check and no translation. */
const telling =
  /;|\b(?:on|default|select|struct|map|version|current_setting|rw_int256|map_from_key_values|returning)\b|pg_|--|\/\*|\$\$/i;

/** The statements of a text, in order. An INSERT of thousands of rows is not tokenized. */
export function plansOf(text: string): Plan[] {
  if (/^\s*insert\s+into\b/i.test(text) && !telling.test(text))
    return [{ kind: 'run', sql: text, structs: [], word: 'insert' }];
  return splitStatements(text, true).map((statement) => planOf(text, statement));
}

export function planOf(text: string, statement: StatementText): Plan {
  const words = statement.tokens.map(({ start, end }) => text.slice(start, end));
  const low = words.map((it) => it.toLowerCase());
  const [first = '', second = ''] = low;
  const has = (...wanted: readonly string[]): boolean => low.join(' ').includes(wanted.join(' '));
  const unparsed = (expected: string, found: string): Plan => ({
    kind: 'unparsed',
    message: notParsed(expected, found),
  });
  // LISTEN, NOTIFY, SAVEPOINT, RELEASE, CALL, DO, LOCK, END …
  if (!known.has(first)) return unparsed('statement', words[0] ?? 'EOF');
  switch (first) {
    case 'begin':
    case 'start':
      return has('read', 'only')
        ? { kind: 'refused', message: 'the stand-in has no read-only transactions' }
        : { kind: 'answered', tag: first === 'begin' ? 'BEGIN' : 'START_TRANSACTION', notice: noTransaction };
    case 'commit':
    case 'rollback':
    case 'abort':
      // transaction.rs: handle_commit, handle_rollback; the grammar has no ROLLBACK TO.
      if (has('and', 'chain'))
        return { kind: 'refused', message: notImplemented(`${first.toUpperCase()} AND CHAIN`) };
      if (second === 'to') return unparsed('end of statement', 'TO');
      return { kind: 'answered', tag: first.toUpperCase() };
    case 'flush':
      return { kind: 'answered', tag: 'FLUSH' };
    case 'discard':
      // discard.rs: does nothing.
      return { kind: 'answered', tag: 'DISCARD' };
    case 'prepare':
    case 'deallocate':
      return { kind: 'answered', tag: first.toUpperCase(), notice: noPrepare(first.toUpperCase()) };
    case 'execute':
      return { kind: 'refused', message: notImplemented('unhandled statement: EXECUTE') };
    case 'copy':
      // handler/mod.rs: only COPY (query) TO STDOUT; parse_copy expects the rows of FROM STDIN after its semicolon.
      if (second !== '(') return unparsed(has('from', 'stdin') ? ';' : 'FROM STDIN or TO STDOUT', 'EOF');
      break;
    case 'set': {
      const [name = '', sign = '', value = ''] = low.slice(1);
      if (ownParameters.has(name) && (sign === '=' || sign === 'to')) return { kind: 'set', name, value };
      break;
    }
    case 'insert':
      // parse_insert: no ON CONFLICT; the table defines conflicts.
      if (has('on', 'conflict')) return unparsed('end of statement', 'ON');
      if (has('(', 'default') || has(',', 'default')) return unparsed('an expression', 'DEFAULT');
      break;
    case 'select':
      // parse_select: at least one item.
      if (low.length === 1) return unparsed('an expression', 'EOF');
      break;
    case 'create': {
      const refused = refusedCreate(low);
      if (refused !== null) return { kind: 'refused', message: refused };
      if (second === 'table') return createTable(text.slice(statement.start, statement.end), statement, text);
      break;
    }
    case 'drop':
      if ((second === 'database' || second === 'user') && low.at(-1) === 'cascade')
        return { kind: 'refused', message: notImplemented(`DROP ${second.toUpperCase()} CASCADE`) };
  }
  const lock = low.find((it, i) => /^pg_(?:try_)?advisory_/.test(it) && low[i + 1] === '(');
  if (lock !== undefined)
    return { kind: 'refused', message: `Bind error: function ${lock}() does not exist` };
  return { kind: 'run', ...ownFunctions(text, statement), word: first };
}

/** parse_create and the handlers of src/frontend/src/handler. */
function refusedCreate(low: readonly string[]): string | null {
  const [, second = '', third = '', fourth = ''] = low;
  if (second === 'temp' || second === 'temporary')
    return notImplemented(`CREATE TEMPORARY ${third.toUpperCase()}`);
  if (second === 'or' && third === 'replace' && /^(?:table|view)$/.test(fourth))
    return notImplemented(`CREATE OR REPLACE ${fourth.toUpperCase()}`);
  if (second === 'unique') return notImplemented('create unique index');
  if (/^(?:trigger|event|procedure|extension|rule|domain|type|sequence)$/.test(second))
    return notParsed('an object type after CREATE', second);
  if (second === 'function' && low.includes('plpgsql')) return notImplemented('language plpgsql');
  return null;
}

/** version(), current_setting() and the names of STRUCTs are RisingWave's. */
function ownFunctions(
  text: string,
  statement: StatementText,
): { readonly sql: string; readonly structs: readonly Struct[] } {
  const { pieces, found } = structs(text, statement);
  let sql = '';
  let last = statement.start;
  for (const { start, end, put } of pieces) {
    sql += text.slice(last, start) + put;
    last = end;
  }
  return { sql: sql + text.slice(last, statement.end), structs: found };
}
