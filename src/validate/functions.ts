/** All rows of the table, and how they are found. */
import { answerRows } from './functions-answers.ts';
import { byteRows } from './functions-bytes.ts';
import { castRows } from './functions-casts.ts';
import { checkRows } from './functions-checks.ts';
import { comparisonRows } from './functions-comparison.ts';
import { digestRows } from './functions-digests.ts';
import { jsonRows } from './functions-json.ts';
import { numberRows } from './functions-numbers.ts';
import { signatureRows } from './functions-signatures.ts';
import { textRows } from './functions-text.ts';
import { timeRows } from './functions-time.ts';
import { type FunctionRow } from './function-table.ts';
import { type TypeName } from './types.ts';

export const rows: readonly FunctionRow[] = [
  ...checkRows,
  ...signatureRows,
  ...digestRows,
  ...byteRows,
  ...textRows,
  ...jsonRows,
  ...numberRows,
  ...timeRows,
  ...comparisonRows,
  ...castRows,
  ...answerRows,
];

function grouped(kind: FunctionRow['kind']): ReadonlyMap<string, readonly FunctionRow[]> {
  const groups = new Map<string, FunctionRow[]>();
  for (const row of rows) {
    if (row.kind !== kind) continue;
    const group = groups.get(row.name);
    if (group === undefined) groups.set(row.name, [row]);
    else group.push(row);
  }
  return groups;
}

export const functionsByName = grouped('function');
export const operatorsByName = grouped('operator');

export function castRow(from: TypeName, to: TypeName): FunctionRow | undefined {
  return castRows.find((row) => row.args[0] === from && row.result === to);
}
