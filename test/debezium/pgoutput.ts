/** What a slot holds, as PostgreSQL itself says it: pgoutput's messages, version 1, of rows (protocol-logicalrep-message-formats). */
import type { Client } from 'pg';

export interface Change {
  readonly xid: string;
  readonly table: string;
  readonly op: 'c' | 'u' | 'd';
  /** Of the row as it is then, or, where it is removed, of its key; in text. */
  readonly values: readonly (string | null)[];
}

/** All that the slot has not given yet; it is not taken from there. */
export async function peekChanges(
  client: Client,
  slot: string,
  publication: string,
): Promise<readonly Change[]> {
  const { rows } = await client.query<{ xid: string; data: Buffer }>(
    `select xid::text as xid, data from pg_logical_slot_peek_binary_changes($1, null, null,
       'proto_version', '1', 'publication_names', $2)`,
    [slot, publication],
  );
  const names = new Map<number, string>();
  return rows.flatMap(({ xid, data }): Change[] => {
    const type = String.fromCharCode(data[0] ?? 0);
    if (!'RIUD'.includes(type)) return [];
    const oid = data.readInt32BE(1);
    if (type === 'R') {
      const [schema = '', table = ''] = data.toString('utf8', 5).split('\0');
      names.set(oid, `${schema}.${table}`);
      return [];
    }
    const table = names.get(oid) ?? '';
    if (type === 'D') return [{ xid, table, op: 'd', values: tuple(data, 6).values }];
    // The old key, or the old row, stands in front of the new one.
    const old = data[5] === 0x4e ? null : tuple(data, 6);
    const { values } = tuple(data, old === null ? 6 : old.end + 1);
    return [{ xid, table, op: type === 'I' ? 'c' : 'u', values }];
  });
}

function tuple(data: Buffer, from: number): { values: (string | null)[]; end: number } {
  const values: (string | null)[] = [];
  let at = from + 2;
  for (let left = data.readInt16BE(from); left > 0; left--) {
    const isText = data[at] === 0x74;
    const length = isText ? data.readInt32BE(at + 1) : 0;
    values.push(isText ? data.toString('utf8', at + 5, at + 5 + length) : null);
    at += isText ? 5 + length : 1;
  }
  return { values, end: at };
}
