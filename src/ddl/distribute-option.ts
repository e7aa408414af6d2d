/**
 * The options `distribute` and `shards`: how Citus distributes the rows of a webhook table. Takes options, returns what
 * headgate.distribute() takes; refuses with StatementError at their position. Pure.
 */
import { StatementError } from './cursor.ts';
import { type Option, optionOf } from './options.ts';

/** Ways other than by a column; a column with such a name is written "in quotes". */
const ways = ['off', 'single', 'reference', 'schema'];
const shardsMax = 1_024;

export function waysOf({ value, valueAt }: Option): string {
  const word = value.toLowerCase();
  if (ways.includes(word)) return word;
  if (value.trim() !== '') return value;
  throw new StatementError('22023', 'distribute names a column, or a way', valueAt, {
    hint: `The ways are: ${ways.join(', ')}.`,
  });
}

export function shardsOf({ value, valueAt }: Option): string {
  if (/^[1-9]\d{0,3}$/.test(value) && Number(value) <= shardsMax) return value;
  throw new StatementError('22023', `shards is a number from 1 to ${shardsMax}`, valueAt);
}

/** Only rows that are distributed by a column are in several shards. `alone`: the table may already be distributed by one. */
export function refuseShards(options: readonly Option[], alone: boolean): void {
  const [shards, distribute] = [optionOf(options, 'shards'), optionOf(options, 'distribute')];
  if (shards === null || (distribute === null ? alone : !ways.includes(waysOf(distribute)))) return;
  throw new StatementError('22023', 'shards needs a column to distribute by', shards.nameAt, {
    hint: "The form is: distribute = 'column', shards = 8.",
  });
}
