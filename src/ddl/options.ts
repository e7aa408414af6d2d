/**
 * The list after WITH. Takes tokens, returns names with values as they are written; refuses repeated names (42601), unknown ones and values that
 * are no word or boolean of the option's (22023), with their position. Pure.
 */
import { StatementError } from './cursor.ts';
import type { Cursor } from './cursor.ts';

export interface Option {
  readonly name: string;
  readonly value: string;
  readonly nameAt: number;
  readonly valueAt: number;
}

/** ( name = value [, …] [,] ); a name may have dots and a value may be unquoted. */
export function parseOptions(cursor: Cursor): Option[] {
  const options: Option[] = [];
  const names = new Set<string>();
  cursor.expect('(');
  while (!cursor.accept(')')) {
    const nameAt = cursor.offset;
    const parts = [cursor.identifier()];
    while (cursor.accept('.')) parts.push(cursor.identifier());
    const name = parts.join('.');
    cursor.expect('=');
    const valueAt = cursor.offset;
    if (names.size === names.add(name).size) {
      throw new StatementError('42601', `option "${name}" is given twice`, nameAt);
    }
    options.push({ name, value: parseValue(cursor), nameAt, valueAt });
    if (!cursor.accept(',')) {
      cursor.expect(')');
      break;
    }
  }
  return options;
}

function parseValue(cursor: Cursor): string {
  const literal = cursor.literal(true);
  if (literal !== null) return literal;
  const { token } = cursor;
  if (token?.kind === 'number') return cursor.raw(cursor.take());
  if (token?.kind === 'word') return cursor.identifier();
  return cursor.unexpected();
}

export function optionOf(options: readonly Option[], name: string): Option | null {
  return options.find((it) => it.name === name) ?? null;
}

export function refuseUnknown(options: readonly Option[], known: readonly string[], of: string): void {
  const unknown = options.find((option) => !known.includes(option.name));
  if (unknown === undefined) return;
  throw new StatementError('22023', `unknown option "${unknown.name}" for ${of}`, unknown.nameAt, {
    hint: `Known: ${known.join(', ')}.`,
  });
}

export function oneOf(option: Option, ...words: readonly string[]): string {
  const word = words.find((it) => it === option.value.toLowerCase());
  if (word !== undefined) return word;
  throw new StatementError('22023', `${option.name} "${option.value}" is not known`, option.valueAt, {
    hint: `Known: ${words.join(', ')}.`,
  });
}

export function booleanOf(option: Option): boolean {
  if (/^(?:true|on|yes|1)$/i.test(option.value)) return true;
  if (/^(?:false|off|no|0)$/i.test(option.value)) return false;
  throw new StatementError('22023', `option "${option.name}" takes true or false`, option.valueAt);
}
