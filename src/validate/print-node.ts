/**
 * Typed nodes and their values as SQL text, for people: EXPLAIN VALIDATE shows an expression the way it is computed, as
 * PostgreSQL's EXPLAIN does. Hidden values are printed as `'********'` in a text, as `********` as a value.
 */
import { isUtf8 } from 'node:buffer';
import { quoteIdentifier } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import { printTextArray } from './arrays.ts';
import { JsonValue, printJson } from './jsonb.ts';
import { type Node, type NodeOf } from './node.ts';
import { Decimal, printDecimal } from './numeric.ts';
import { printFloat8 } from './scalars.ts';
import { printTimestamp } from './timestamp.ts';
import { type StaticType, type Value, printedType } from './types.ts';

export const mask = '********';

/** At most `explainTextCharsMax` characters, never half of one. */
function clip(text: string): string {
  const { explainTextCharsMax } = limits;
  if (text.length <= explainTextCharsMax) return text;
  const end = /[\ud800-\udbff]/.test(text[explainTextCharsMax - 1] ?? '')
    ? explainTextCharsMax - 1
    : explainTextCharsMax;
  return `${text.slice(0, end)}…`;
}

/** Prints the tree below a node once; a node in several places is also printed once, so that the work is bounded. */
export class NodePrinter {
  readonly #payloadName: string;
  readonly #isHidden: (constant: NodeOf<'constant'>) => boolean;
  readonly #texts = new Map<number, string>();

  constructor(payloadName: string | null, isHidden: (constant: NodeOf<'constant'>) => boolean) {
    this.#payloadName = payloadName ?? 'payload';
    this.#isHidden = isHidden;
  }

  print(node: Node): string {
    let text = this.#texts.get(node.id);
    if (text === undefined) {
      text = clip(this.#print(node));
      this.#texts.set(node.id, text);
    }
    return text;
  }

  /** In parentheses if it is written with an operator. */
  #operand(node: Node): string {
    const text = this.print(node);
    return isInfix(node) ? `(${text})` : text;
  }

  #list(nodes: readonly Node[], separator = ', '): string {
    return nodes.map((node) => (separator === ', ' ? this.print(node) : this.#operand(node))).join(separator);
  }

  #print(node: Node): string {
    switch (node.kind) {
      case 'constant':
        return this.#isHidden(node) ? `'${mask}'` : printConstant(node);
      case 'header':
        if (node.type === 'text[]') return `header_values(${quoted(node.name)})`;
        return `headers${node.type === 'text' ? '->>' : '->'}${quoted(node.name)}`;
      case 'secret':
        return identifier(node.name);
      case 'variable':
        if (node.name === 'payload') return identifier(this.#payloadName);
        return node.name === 'now' ? 'now()' : node.name;
      case 'call':
        return this.#call(node);
      case 'and':
      case 'or':
        return this.#list(node.args, ` ${node.kind.toUpperCase()} `);
      case 'not':
        return `NOT ${this.#operand(node.args[0])}`;
      case 'array':
        return `ARRAY[${this.#list(node.args)}]`;
      case 'case':
        return this.#case(node);
      case 'test':
        return `${this.#operand(node.args[0])} IS ${node.negated ? 'NOT ' : ''}${node.test.toUpperCase()}`;
      case 'any': {
        const [left, array] = node.args;
        return `${this.#operand(left)} ${node.row.name} ${node.all ? 'ALL' : 'ANY'} (${this.print(array)})`;
      }
      case 'distinct':
        return this.#list(node.args, ` IS ${node.negated ? 'NOT ' : ''}DISTINCT FROM `);
      default:
        return `${node.kind}(${this.#list(node.args)})`;
    }
  }

  #call({ row, args, type }: NodeOf<'call'>): string {
    // The time of arrival, which some functions are passed, is not an argument that was written.
    const written = row.clock ? args.slice(0, -1) : args;
    const [first] = written;
    if (row.kind === 'function' || first === undefined) return `${row.name}(${this.#list(written)})`;
    if (row.kind === 'cast') return `${this.#operand(first)}::${printedType[type]}`;
    const name = { '~~': 'LIKE', '!~~': 'NOT LIKE' }[row.name] ?? row.name;
    return written.length === 1 ? `${name} ${this.#operand(first)}` : this.#list(written, ` ${name} `);
  }

  #case({ branches, otherwise }: NodeOf<'case'>): string {
    const whens = branches.map(({ when, result }) => `WHEN ${this.print(when)} THEN ${this.print(result)}`);
    return `CASE ${whens.join(' ')} ELSE ${this.print(otherwise)} END`;
  }
}

function isInfix(node: Node): boolean {
  if (node.kind === 'call') return node.row.kind === 'operator';
  return ['and', 'or', 'not', 'test', 'any', 'distinct'].includes(node.kind);
}

function identifier(name: string): string {
  return /^[a-z_][a-z0-9_]*$/.test(name) ? name : quoteIdentifier(name);
}

function printConstant({ value, type }: NodeOf<'constant'>): string {
  if (value === null) return 'NULL';
  const text = printValue(value, type);
  return type === 'text' || type === 'unknown' || !text.startsWith("'")
    ? text
    : `${text}::${printedType[type]}`;
}

/** Removes from a text what must not be shown. */
export type Scrub = (text: string) => string;

/** A value as a literal. */
export function printValue(value: Value, type: StaticType, scrub: Scrub = (text) => text): string {
  if (value === null) return 'NULL';
  if (typeof value === 'string') return quoted(scrub(value));
  if (typeof value === 'boolean') return String(value);
  if (Buffer.isBuffer(value)) {
    const isClean = !isUtf8(value) || scrub(value.toString('utf8')) === value.toString('utf8');
    return isClean ? quoted(`\\x${value.toString('hex', 0, limits.explainTextCharsMax)}`, true) : mask;
  }
  if (value instanceof JsonValue) return quoted(scrub(printJson(value)));
  if (value instanceof Decimal) return printDecimal(value);
  if (typeof value === 'object') return quoted(scrub(printTextArray(value)));
  if (type === 'timestamptz') return quoted(printTimestamp(value as bigint));
  if (type === 'interval') return `'${(Number(value) / 1e6).toString()} seconds'`;
  return type === 'float8' ? printFloat8(value as number) : String(value);
}

const controls: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\\': '\\\\' };

/** A literal in one line: control characters, which would be invisible, are written as escapes. */
export function quoted(text: string, plain = false): string {
  const long = text.length > limits.explainTextCharsMax;
  const shown = clip(text).replaceAll("'", "''");
  // oxlint-disable-next-line no-control-regex
  const isPlain = plain || !/[\u0000-\u001f\u007f]/.test(shown);
  const literal = isPlain
    ? `'${shown}'`
    : // oxlint-disable-next-line no-control-regex
      `E'${shown.replaceAll(/[\u0000-\u001f\u007f\\]/g, escaped)}'`;
  return long ? `${literal} (${text.length} characters)` : literal;
}

function escaped(char: string): string {
  return controls[char] ?? `\\x${char.charCodeAt(0).toString(16).padStart(2, '0')}`;
}

/** A request body for display: as text if it is text, and always with its length. */
export function printBody(body: Buffer, scrub: Scrub): string {
  const shown = isUtf8(body)
    ? quoted(scrub(body.toString('utf8'))).replace(/ \(\d+ characters\)$/, '')
    : printValue(body, 'bytea');
  return `${shown} (${body.length} bytes)`;
}
