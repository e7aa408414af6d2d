/**
 * What to do about a delivery that its sender repeats: the SQL that stores it once, or that reads each of its events
 * once. Takes a sender, returns text for its page and statements that run. Pure.
 */
import { printDeliveryId } from '../types/delivery-id.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import type { DeliveryId, Sender } from './sender.ts';

export const tableOptions = ({ format }: Sender) =>
  format === 'json' ? "connector = 'webhook'" : `connector = 'webhook', format = '${format}'`;

/** The one column that the body goes into. */
export const bodyColumn = ({ format }: Sender) => (format === 'text' ? 'data TEXT' : 'data JSONB');

/** The option `dedupe` in full; or why there is none. */
export function dedupeText({
  deliveryId,
  name,
}: Sender): { readonly id: string; readonly compare?: string } | { readonly problem: string } {
  if (deliveryId === null)
    return { problem: `${name} sends no id that stays the same when a delivery is repeated` };
  if ('ofEach' in deliveryId)
    return {
      problem: `a request from ${name} may contain several events, and has no id of its own that stays the same`,
    };
  if ('header' in deliveryId) return { id: printDeliveryId([{ header: deliveryId.header.toLowerCase() }]) };
  const { fields, stays } = deliveryId;
  return { id: placesOf(fields), ...(stays !== undefined && { compare: placesOf(stays) }) };
}

function placesOf(fields: readonly (readonly string[])[]): string {
  return printDeliveryId(
    fields.map((path) => ({ path: path.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) })),
  );
}

/** CREATE TABLE with the delivery's id as its key, and the sender's second secret, if named; null: the sender has no id for a key. */
export function keyedTable(
  sender: Sender,
  table: string,
  secretName: string,
  answerName: string | null = null,
): string | null {
  const { deliveryId, id } = sender;
  if (deliveryId === null || 'ofEach' in deliveryId) return null;
  const check = `WITH (${tableOptions(sender)})\n  VALIDATE SECRET ${secretName} USING ${id}${answerName === null ? '' : ` ANSWER SECRET ${answerName}`};`;
  if ('header' in deliveryId) {
    return `CREATE TABLE ${table} (${bodyColumn(sender)}, PRIMARY KEY (delivery))\n  INCLUDE HEADER ${quoteLiteral(deliveryId.header.toLowerCase())} AS delivery\n  ${check}`;
  }
  const columns = deliveryId.fields.map((path) => ({ name: columnOf(path), value: valueAt('data', path) }));
  const generated = ({ name, value }: { name: string; value: string }) =>
    `${name} TEXT GENERATED ALWAYS AS (${value}) STORED`;
  const body =
    columns.length === 1
      ? `data JSONB, ${columns.map(generated).join('')} PRIMARY KEY`
      : `\n  data JSONB,\n  ${columns.map(generated).join(',\n  ')},\n  PRIMARY KEY (${columns.map(({ name }) => name).join(', ')})\n`;
  return `CREATE TABLE ${table} (${body})\n  ${check}`;
}

/** Reads each event once, if a request contains several; null: it contains one. */
export function eachEvent({ deliveryId }: Sender, table: string): string | null {
  if (deliveryId === null || !('ofEach' in deliveryId)) return null;
  const { at, json } = deliveryId;
  const list =
    at === undefined ? 'data' : json === true ? `(${valueAt('data', at)})::jsonb` : partAt('data', at);
  return `SELECT DISTINCT ON (event->>'${deliveryId.ofEach}') event\n  FROM ${table}, jsonb_array_elements(${list}) AS event;`;
}

/** Empty if nothing is known that identifies a repeated delivery. */
export function repeatedSection(
  sender: Sender,
  table: string,
  secretName: string,
  answerName: string | null,
): string {
  const { deliveryId } = sender;
  if (deliveryId === null) return '';
  const sql = keyedTable(sender, table, secretName, answerName) ?? eachEvent(sender, table) ?? '';
  return `## A delivery that is repeated

${told(deliveryId)}

\`\`\`sql
${sql}
\`\`\`
${'ofEach' in deliveryId ? '' : `${dedupeSection(sender, table, secretName, answerName)}\nTo try it, send one delivery twice: \`headgate send ${sender.id} … --repeat 2\`.\n`}
`;
}

/** The same for a table of any shape. */
function dedupeSection(sender: Sender, table: string, secretName: string, answerName: string | null): string {
  const place = dedupeText(sender);
  if ('problem' in place) return '';
  const answer = answerName === null ? '' : ` ANSWER SECRET ${answerName}`;
  return `
A table without a key, or with another key, does the same with the option [\`dedupe\`](../sql/statements.md#deliveries-that-are-repeated), which
keeps the ids for seven days; here \`dedupe = 'sender'\` means \`dedupe = '${place.id}'\`${place.compare === undefined ? '' : `, and \`dedupe_compare = '${place.compare}'\`, because the rest of the body changes when it is repeated`}:

\`\`\`sql
CREATE TABLE ${table} (${bodyColumn(sender)}) WITH (${tableOptions(sender)}, dedupe = 'sender')
  VALIDATE SECRET ${secretName} USING ${sender.id}${answer};
\`\`\`
`;
}

function told(deliveryId: DeliveryId): string {
  if ('ofEach' in deliveryId) {
    return `One request may contain several, and a repeated request is stored as another row; but each ${deliveryId.what} keeps its \`${deliveryId.ofEach}\`. This query reads every ${deliveryId.what} once:`;
  }
  const what =
    'header' in deliveryId
      ? `in the header \`${deliveryId.header}\`${deliveryId.or === undefined ? '' : ` (otherwise in \`${deliveryId.or.split(' ')[0]}\`${deliveryId.or.replace(/^\S+/, '')})`}`
      : deliveryId.fields.length === 1
        ? `in \`${(deliveryId.fields[0] ?? []).join('.')}\` of its body`
        : `in ${deliveryId.fields.map((path) => `\`${path.at(-1)}\``).join(' and ')} of its body`;
  return `A repeated delivery has the same id, ${what}. With the id as its key, the table stores a delivery once and answers every repetition as if it had been stored; a request without the id is refused with 422:`;
}

/** `MessageID` → `message_id` */
function columnOf(path: readonly string[]): string {
  return (path.at(-1) ?? '').replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2').toLowerCase();
}

const step = (key: string) => (/^\d+$/.test(key) ? key : quoteLiteral(key));
const partAt = (column: string, path: readonly string[]) =>
  path.reduce((inner, key) => `${inner}->${step(key)}`, column);
const valueAt = (column: string, path: readonly string[]) =>
  `${partAt(column, path.slice(0, -1))}->>${step(path.at(-1) ?? '')}`;
