/** `headgate explain`: one refused request, as kept for the owner of its table: its contents, why it was refused, and what to do. */
import { PlainError } from '../kit/plain-error.ts';
import { hintOfRefusal } from '../errors/refusals.ts';
import { limits } from '../config/limits.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { utcText, within } from './session.ts';
import type { Texts } from './session.ts';
import type { Where } from './find-headgate.ts';

const read = `SELECT id::text AS id, ${utcText('received_at')} AS received_at, schema_name, table_name, door, status::text AS status, code, reason, engine_error, authenticated::text AS authenticated,
  remote_address, method, target, headers::text AS headers, array_to_json(headers_left_out)::text AS left_out, headers_masked::text AS masked,
  body_bytes::text AS body_bytes, encode(body, 'base64') AS body, retry_outcome, retry_reason,
  headgate.owns_table(r.relation)::text AS owned
FROM headgate.rejected_requests r`;

/** `id` null: the newest. */
export async function explainCommand(
  where: Where,
  id: string | null,
  json: boolean,
  io: CommandIo,
): Promise<number> {
  if (id !== null && !/^\d{1,18}$/.test(id))
    throw new PlainError(`"${id}" is not the id of a refused request, which is a number`);
  const [row] = await within(where.dsn, 'explain', (session) =>
    id === null
      ? session.rows(`${read} ORDER BY r.id DESC LIMIT 1`)
      : session.rows(`${read} WHERE r.id = $1::bigint`, [id]),
  );
  if (row === undefined)
    throw new PlainError(
      id === null
        ? 'no refused request is kept'
        : `there is no refused request ${id} of a table that you own, or whose owner lets you look at it (readers); old ones are deleted`,
    );
  const hint = hintOfRefusal(row['code'] ?? '', row['reason'] ?? '');
  const { owned: _, ...shown } = row;
  const kept = row['body'] === null ? null : Buffer.from(row['body'] ?? '', 'base64');
  if (json)
    io.print(
      jsonLine({
        ...shown,
        id: Number(row['id']),
        status: Number(row['status']),
        authenticated: row['authenticated'] === 'true',
        headers: objectOf(row['headers']),
        left_out: Object.values(objectOf(row['left_out'])),
        masked: objectOf(row['masked']),
        body_bytes: row['body_bytes'] === null ? null : Number(row['body_bytes']),
        ...bodyOf(kept, row['body_bytes'] ?? ''),
        hint,
      }),
    );
  else io.print(page(row, hint));
  return 0;
}

function page(row: Texts, hint: string): string {
  const text = (name: string): string => plain(row[name] ?? '');
  const body = Buffer.from(row['body'] ?? '', 'base64').toString('utf8');
  const headers = Object.entries(objectOf(row['headers'])).map(
    ([name, value]) => `  ${plain(name)}: ${plain(value)}`,
  );
  const masked = objectOf(row['masked']);
  const leftOut = Object.values(objectOf(row['left_out'])).map((name) =>
    `  ${plain(name)}: (left out) ${plain(masked[name] ?? '')}`.trimEnd(),
  );
  const retried =
    row['retry_outcome'] === null
      ? ''
      : `Retried: ${text('retry_outcome')} ${text('retry_reason')}`.trimEnd();
  const storable =
    row['body_bytes'] !== null && row['door'] !== 'websocket' && row['retry_outcome'] !== 'committed';
  return `${[
    `Request ${text('id')} to ${text('schema_name')}.${text('table_name')}, ${text('received_at')}, from ${text('remote_address')}`,
    '',
    `${text('status')} ${text('code')}: ${text('reason')}`,
    ...(row['engine_error'] === null ? [] : [`PostgreSQL: ${text('engine_error')}`]),
    hint,
    '',
    `${text('method')} ${text('target')}`,
    ...headers,
    ...leftOut,
    '',
    row['body_bytes'] === null
      ? '(the body was not read)'
      : shownBody(body.slice(0, limits.promptCellCharsMax)),
    ...(row['body_bytes'] === null ? [] : [`(${text('body_bytes')} bytes)`]),
    ...(retried === '' ? [] : ['', retried]),
    ...(storable ? ['', howToStore(row, text('id'))] : []),
  ].join('\n')}\n`;
}

/** VALIDATE is not evaluated again, in either case: the signature is not kept. */
function howToStore({ owned, authenticated }: Texts, id: string): string {
  if (owned !== 'true') return 'Only the owner of the table can store it.';
  return authenticated === 'true'
    ? `VALIDATE had accepted it. To store it, once its row fits the table: SELECT headgate.retry_rejected(${id});`
    : `VALIDATE did not accept it. To store it nevertheless, unchecked: SELECT headgate.retry_rejected(${id}, force => true);`;
}

/** A body, or its beginning, in JSON: as text if it is UTF-8. `bytes`: how long the body was. */
export function bodyOf(
  kept: Buffer | null,
  bytes: string,
): { readonly body: string | null; readonly body_encoding: 'utf8' | 'base64' | null } {
  if (kept === null) return { body: null, body_encoding: null };
  try {
    // The last character of a beginning may be cut in two.
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    return { body: decoder.decode(kept, { stream: kept.length < Number(bytes) }), body_encoding: 'utf8' };
  } catch {
    return { body: kept.toString('base64'), body_encoding: 'base64' };
  }
}

/** With its line breaks and tabs, and nothing else that a terminal acts on. */
function shownBody(text: string): string {
  return text
    .split(/\r?\n/)
    .map((line) => line.split('\t').map(plain).join('\t'))
    .join('\n');
}

function objectOf(text: string | null | undefined): Readonly<Record<string, string>> {
  return JSON.parse(text ?? '{}') as Record<string, string>;
}
