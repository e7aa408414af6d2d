/**
 * The table for the requests of a known sender. It keeps the event's name, the delivery's id, the headers and the raw body, so that events
 * can be told apart and a request can be sent again; each is a line that can be left out. Takes a sender, returns SQL. Pure.
 */
import { quoteLiteral } from '../kit/sql-text.ts';
import { eventPlaces } from './events.ts';
import { bodyColumn, tableOptions, valueAt } from './dedupe.ts';
import type { DeliveryId } from './evidence.ts';
import type { Sender } from './sender.ts';

/** The definitions of columns, or INCLUDE clauses. */
interface KeptColumn {
  readonly name: 'event' | 'delivery_id';
  readonly from: { readonly header: string } | { readonly field: readonly string[] };
}

/** The event's name and the delivery's id, if the sender has them in one place. */
export function keptColumns({ id, delivery, format }: Sender): readonly KeptColumn[] {
  const columns: KeptColumn[] = [];
  const event = eventPlaces[id];
  if (event !== undefined) columns.push({ name: 'event', from: event });
  const place = delivery.kind === 'none' ? null : placeOf(delivery.id);
  if (place !== null) columns.push({ name: 'delivery_id', from: place });
  return columns.filter(({ from }) => 'header' in from || format !== 'text');
}

function placeOf(id: DeliveryId | null): KeptColumn['from'] | null {
  if (id === null || 'ofEach' in id) return null;
  if ('header' in id) return id;
  const [field, ...others] = id.fields;
  return field === undefined || others.length > 0 ? null : { field };
}

/** A column of the table's list; null: INCLUDE fills it. */
export const columnText = ({ name, from }: KeptColumn): string | null =>
  'field' in from ? `${name} TEXT GENERATED ALWAYS AS (${valueAt('data', from.field)}) STORED` : null;

/** An INCLUDE clause; null: it is computed from the document. */
export const includeText = ({ name, from }: KeptColumn): string | null =>
  'header' in from ? `INCLUDE HEADER ${quoteLiteral(from.header.toLowerCase())} AS ${name}` : null;

/** CREATE TABLE as far as VALIDATE, with a line for each thing that is kept. `table`: as written in SQL. */
export function senderTable(sender: Sender, table: string, create = 'CREATE TABLE'): string {
  const kept = keptColumns(sender);
  const columns = [bodyColumn(sender), ...kept.flatMap((it) => columnText(it) ?? [])];
  const list = columns.length === 1 ? `(${columns.join('')})` : `(\n  ${columns.join(',\n  ')}\n)`;
  const includes = [
    ...kept.flatMap((it) => includeText(it) ?? []),
    'INCLUDE TIMESTAMP AS received_at',
    'INCLUDE HEADERS AS headers',
    'INCLUDE BODY AS raw',
  ];
  return `${create} ${table} ${list}\n${includes.map((it) => `  ${it}\n`).join('')}  WITH (${tableOptions(sender)})`;
}

export const hasEvent = (sender: Sender): boolean => keptColumns(sender).some(({ name }) => name === 'event');
