/**
 * Tables and types of RisingWave as the stand-in creates them in PostgreSQL: STRING, STRUCT<…>, MAP(…), rw_int256, APPEND ONLY, and what
 * happens to an existing key. Takes statements, returns PostgreSQL's; pure.
 */
import { createHash } from 'node:crypto';
import type { StatementText } from '../../../src/ddl/scanner.ts';
import { quoteIdentifier, quoteLiteral } from '../../../src/kit/sql-text.ts';
import type { Plan } from './statements.ts';

/** A composite type that represents a STRUCT. */
export interface Struct {
  readonly name: string;
  readonly fields: string;
  /** As rw_columns prints it. */
  readonly shown: string;
}

interface Type {
  readonly postgres: string;
  readonly shown: string;
}

interface Piece {
  readonly start: number;
  readonly end: number;
  readonly put: string;
}

/** src/sqlparser/src/parser.rs, parse_data_type; shown like `Display` of DataType. */
const scalars: Readonly<Record<string, string>> = {
  string: 'character varying',
  varchar: 'character varying',
  text: 'character varying',
  int: 'integer',
  int4: 'integer',
  bigint: 'bigint',
  int8: 'bigint',
  smallint: 'smallint',
  int2: 'smallint',
  float: 'double precision',
  float8: 'double precision',
  real: 'real',
  float4: 'real',
  bool: 'boolean',
  decimal: 'numeric',
  timestamptz: 'timestamp with time zone',
  timestamp: 'timestamp without time zone',
  time: 'time without time zone',
};

/** Parses a type from the words of a statement. */
class TypeReader {
  readonly structs: Struct[] = [];
  readonly #words: readonly string[];
  at: number;

  constructor(words: readonly string[], at: number) {
    this.#words = words;
    this.at = at;
  }

  type(): Type {
    let type = this.#one();
    while (this.#words[this.at] === '[' && this.#words[this.at + 1] === ']') {
      this.at += 2;
      type = { postgres: `${type.postgres}[]`, shown: `${type.shown}[]` };
    }
    return type;
  }

  #one(): Type {
    const word = (this.#words[this.at++] ?? '').toLowerCase();
    if (word === 'struct') return this.#struct();
    if (word === 'map') {
      this.at++;
      const key = this.type();
      this.at++;
      const value = this.type();
      this.at++;
      return { postgres: 'rw_catalog.rw_map', shown: `map(${key.shown},${value.shown})` };
    }
    let name = scalars[word] ?? word;
    for (const more of ['varying', 'precision', 'with', 'without', 'time', 'zone']) {
      if ((this.#words[this.at] ?? '').toLowerCase() !== more) continue;
      name = `${name.replace(/ with.* time zone$/, '')} ${more}`;
      this.at++;
    }
    return { postgres: name === 'rw_int256' ? 'rw_catalog.rw_int256' : name, shown: name };
  }

  #struct(): Type {
    this.at++;
    const fields: { name: string; type: Type }[] = [];
    for (;;) {
      const word = this.#words[this.at++] ?? '';
      fields.push({ name: word.startsWith('"') ? word.slice(1, -1) : word.toLowerCase(), type: this.type() });
      const sign = this.#words[this.at++];
      if (sign !== ',') break;
    }
    const quoteIdent = (it: string) => (/^[a-z_][a-z_0-9]*$/.test(it) ? it : quoteIdentifier(it));
    const shown = `struct<${fields.map((it) => `${quoteIdent(it.name)} ${it.type.shown}`).join(', ')}>`;
    const name = `struct_${createHash('md5').update(shown).digest('hex')}`;
    const columns = fields.map((it) => `${quoteIdentifier(it.name)} ${it.type.postgres}`).join(', ');
    this.structs.push({ name, fields: columns, shown });
    return { postgres: `rw_catalog.${name}`, shown };
  }
}

/** The words of a statement, with `>>` split. */
function wordsOf(
  text: string,
  statement: StatementText,
): { readonly word: string; readonly start: number; readonly end: number }[] {
  return statement.tokens.flatMap(({ start, end }) => {
    const word = text.slice(start, end);
    if (!/^[<>]+$/.test(word)) return [{ word, start, end }];
    return Array.from(word, (sign, i) => ({ word: sign, start: start + i, end: start + i + 1 }));
  });
}

/** The parts of a statement that have to be translated for PostgreSQL. */
export function structs(
  text: string,
  statement: StatementText,
): { readonly pieces: readonly Piece[]; readonly found: readonly Struct[] } {
  const all = wordsOf(text, statement);
  const words = all.map(({ word }) => word);
  const pieces: Piece[] = [];
  const found: Struct[] = [];
  for (let at = 0; at < words.length; at++) {
    const word = (words[at] ?? '').toLowerCase();
    const token = all[at];
    if (token === undefined) continue;
    const isMap = word === 'map' && words[at - 1]?.startsWith(':') === true;
    if (isMap || (word === 'struct' && words[at + 1] === '<')) {
      const reader = new TypeReader(words, at);
      const { postgres } = reader.type();
      pieces.push({ start: token.start, end: all[reader.at - 1]?.end ?? token.end, put: postgres });
      found.push(...reader.structs);
      at = reader.at - 1;
    } else if ((word === 'version' || word === 'current_setting') && words[at + 1] === '(') {
      const qualified = words[at - 1] === '.';
      pieces.push({
        start: (qualified ? all[at - 2] : token)?.start ?? token.start,
        end: token.end,
        put: `rw_catalog.${word}`,
      });
    } else if (word === 'rw_int256' || word === 'map_from_key_values') {
      pieces.push({ start: token.start, end: token.end, put: `rw_catalog.${word}` });
    }
  }
  return { pieces, found };
}

/** CREATE TABLE [IF NOT EXISTS] name (…) [APPEND ONLY] [ON CONFLICT …]; `definition` as in rw_relations. */
export function createTable(definition: string, statement: StatementText, text: string): Plan {
  const all = wordsOf(text, statement);
  const words = all.map(({ word }) => word);
  const low = words.map((it) => it.toLowerCase());
  const guard = low[2] === 'if' ? ' if not exists' : '';
  let at = guard === '' ? 2 : 5;
  const nameAt = at;
  while (words[at] !== '(' && at < words.length) at++;
  const name = words.slice(nameAt, at).join('');
  const elements: string[] = [];
  const comments: string[] = [];
  const found: Struct[] = [];
  let depth = 0;
  for (at++; at < words.length && words[at] !== ')';) {
    const isKey = low[at] === 'primary';
    const column = words[at] ?? '';
    let type: Type | null = null;
    if (!isKey) {
      const reader = new TypeReader(words, at + 1);
      type = reader.type();
      found.push(...reader.structs);
      at = reader.at;
    }
    const from = all[at]?.start ?? 0;
    for (depth = 0; at < words.length; at++) {
      if (words[at] === '(') depth++;
      if (words[at] === ')' && depth-- === 0) break;
      if (words[at] === ',' && depth === 0) break;
    }
    const rest = text
      .slice(from, all[at]?.start ?? from)
      .replace(/^as (.*)$/is, 'generated always as ($1) stored');
    elements.push(type === null ? rest : `${column} ${type.postgres} ${rest}`);
    // PostgreSQL stores neither the types in a map nor the number of dimensions of an array.
    if (type !== null && /map\(|\]\[/.test(type.shown))
      comments.push(`comment on column ${name}.${column} is ${quoteLiteral(type.shown)}`);
    if (words[at] === ',') at++;
  }
  const tail = low.slice(at + 1).join(' ');
  const conflict = /do nothing|ignore/.test(tail) ? 'ignore' : 'overwrite';
  const sql = [
    `create table${guard} ${name} (${elements.join(', ')})`,
    `comment on table ${name} is ${quoteLiteral(definition)}`,
    ...comments,
    `select rw_catalog.own_conflicts(${quoteLiteral(name)}::regclass, ${quoteLiteral(conflict)})`,
  ].join('; ');
  return { kind: 'run', sql, structs: found, word: 'create table' };
}
