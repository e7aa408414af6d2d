/** Documents in which values that do not fit are NULL; pure. Of two members of one name the last one counts. */
import type { Column } from '../types/shape.ts';
import type { Rows } from '../types/rows.ts';

const braceOpen = 0x7b;
const braceClose = 0x7d;

/** The same rows with `,"column":null` before the closing brace of their documents. */
export function withNulls(
  rows: Rows,
  values: readonly { readonly row: number; readonly column: Pick<Column, 'name'> }[],
): Rows {
  const added = new Map<number, string[]>();
  for (const { row, column } of values) {
    const members = added.get(row) ?? [];
    members.push(`${JSON.stringify(column.name)}:null`);
    added.set(row, members);
  }
  const { bytes, spans } = rows.documents;
  const next = new Uint32Array(2 * rows.count);
  const pieces: Buffer[] = [];
  let at = 0;
  for (let i = 0; i < rows.count; i++) {
    const document = bytes.subarray(spans?.[2 * i] ?? 0, spans?.[2 * i + 1] ?? bytes.length);
    next[2 * i] = at;
    for (const piece of spliced(document, added.get(i))) {
      pieces.push(piece);
      at += piece.length;
    }
    next[2 * i + 1] = at;
  }
  return { ...rows, documents: { bytes: Buffer.concat(pieces), spans: next } };
}

function spliced(document: Buffer, members: readonly string[] | undefined): Buffer[] {
  const end = document.lastIndexOf(braceClose);
  if (members === undefined || end < 0) return [document];
  const separator = isEmpty(document, end) ? '' : ',';
  return [document.subarray(0, end), Buffer.from(separator + members.join(',')), document.subarray(end)];
}

/** Whether only white space precedes the closing brace at `end`. */
function isEmpty(document: Buffer, end: number): boolean {
  for (let i = document.indexOf(braceOpen) + 1; i < end; i++) if ((document[i] ?? 0) > 0x20) return false;
  return true;
}
