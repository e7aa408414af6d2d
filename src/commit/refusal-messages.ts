/**
 * What a sender is told about a row that the engine refuses; pure. Names of columns and constraints may be told; the
 * engine's message only if it is about this sender's own value. DETAIL (see messageOf), and texts written by triggers,
 * may hold other rows' data and are never told. The owner of the table is told the engine's message besides (`engineError`).
 */
import type { Column } from '../types/shape.ts';
import { limits } from '../config/limits.ts';
import { refusal, refusals } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { isRaised, ours } from './interpret-reply.ts';
import type { ValueAtFault } from './value-at-fault.ts';
import type { Failed } from './engine-reply.ts';
import { versionMissing } from './newest-statements.ts';
import { keyMissing } from './statements.ts';

/** A value that the engine could not decode. */
export function misfitRefusal({ column, failed }: ValueAtFault): Refusal {
  const { message } = refusals.payload_undecodable;
  const missing = failed.message.includes(`"${keyMissing}"`);
  if (missing)
    return refusal('payload_undecodable', `${message}: the primary key of a row to delete is missing`);
  const reason = isOwnSentence(failed) ? shortened(failed.message) : 'the value does not fit';
  const place = column === null ? '' : `column "${column.name}": `;
  return refusal('payload_undecodable', `${message}: ${place}${reason}`);
}

/** Where PostgreSQL finds that a row fits no partition, or not the one that it was written to. */
const partitionRoutines = new Set(['ExecFindPartition', 'ExecPartitionCheckEmitError']);

/**
 * A row that could be decoded, but does not fit the table. A document without its key gets RisingWave's words for it:
 * its clients look for them.
 */
export function rowRefusal(
  { sqlstate, constraint, column, routine }: Pick<Failed, 'sqlstate' | 'constraint' | 'column' | 'routine'>,
  key: readonly Pick<Column, 'name'>[] = [],
): Refusal {
  if (constraint !== null) return refusal('row_refused', `the row violates the constraint ${constraint}`);
  // A trigger may raise 23514, too, for something else.
  if (sqlstate === '23514' && partitionRoutines.has(routine ?? ''))
    return refusal('row_refused', 'no partition of the table takes the row');
  if (sqlstate === '23502' && column !== null) {
    const reason = `column "${column}" must not be null`;
    const decoding = key.some(({ name }) => name === column);
    return refusal('row_refused', decoding ? `${refusals.payload_undecodable.message}: ${reason}` : reason);
  }
  return refusal('row_refused');
}

/** Raised by the statement that stores or deletes the row. */
export function isVersionMissing({ sqlstate, message }: Pick<Failed, 'sqlstate' | 'message'>): boolean {
  return sqlstate === '22P02' && message.includes(`"${versionMissing}"`);
}

/** A document that jsonb does not accept, or a row that does not fit the table of one column. */
export function documentRefusal(failed: Failed): Refusal {
  if (
    failed.constraint === null &&
    !isRaised(failed) &&
    /^(22P0[25]|22021|22003|22P03|54)/.test(failed.sqlstate)
  )
    return refusal('body_not_json');
  return rowRefusal(failed);
}

/**
 * The same refusal, with the SQLSTATE, the engine's message and the first line of its context, for the owner. The context of a COPY is left out: it
 * quotes the row, and with it headers that are not kept.
 */
export function forOwner(it: Refusal, { sqlstate, message, where, routine }: Failed): Refusal {
  if (routine === ours) return it;
  const [place = ''] = where.split('\n', 1);
  const quotes = place.startsWith('COPY ') || /\$\d+ = /.test(place);
  const text = `${sqlstate} ${message}${place === '' || quotes ? '' : ` — ${place}`}`;
  return { ...it, engineError: cutText(text, limits.engineErrorBytesMax) };
}

/** At most so many bytes of UTF-8, and no part of a character. */
function cutText(text: string, bytesMax: number): string {
  const bytes = Buffer.from(text.slice(0, bytesMax));
  if (bytes.length <= bytesMax) return bytes.toString();
  let end = bytesMax;
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1;
  return bytes.toString('utf8', 0, end);
}

/** Whether it is the engine's own message about a value that it was given, and not that of a user's function. */
function isOwnSentence(failed: Failed): boolean {
  return !isRaised(failed) && /^(22|2350|23514|42846|54)/.test(failed.sqlstate);
}

function shortened(text: string): string {
  const points = Array.from(text.slice(0, 2 * limits.reasonCharsMax));
  return points.length > limits.reasonCharsMax ? `${points.slice(0, limits.reasonCharsMax).join('')}…` : text;
}
