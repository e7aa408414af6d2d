/**
 * What to do about a delivery that its sender repeats: the SQL that stores it once, or that reads each of its events once. Only an id of
 * which somebody has said that it is one per event, and the same on a repetition, is offered. Takes a sender, returns text for its page and
 * statements that run. Pure.
 */
import { printDeliveryId } from '../types/table-options.ts';
import { quoteLiteral } from '../kit/sql-text.ts';
import type { DeliveryId } from './evidence.ts';
import type { Sender } from './sender.ts';

export const tableOptions = ({ format }: Sender) =>
  format === 'json' ? "connector = 'webhook'" : `connector = 'webhook', format = '${format}'`;

/** The one column that the body goes into. */
export const bodyColumn = ({ format }: Sender) => (format === 'text' ? 'data TEXT' : 'data JSONB');

/** The value of the option `dedupe`; or, in sentences, why there is none, and what to do. */
export type DedupePlace =
  | { readonly id: string; readonly compare?: string }
  | { readonly problem: string; readonly instead: string };

export function dedupeText({ delivery, events, name, id: sender }: Sender): DedupePlace {
  const see = `See docs/senders/${sender}.md.`;
  if (events !== null && (delivery.kind !== 'known' || 'ofEach' in delivery.id))
    return {
      problem: `a request from ${name} may contain several events, and has no id of its own that stays the same`,
      instead: see,
    };
  if (delivery.kind === 'none')
    return { problem: delivery.why, instead: [delivery.instead ?? '', see].join(' ').trim() };
  const { id } = delivery;
  if (id === null)
    return {
      problem: `nobody has looked whether ${name} sends an id that stays the same when a delivery is repeated`,
      instead: `If you know one, name it: dedupe = '$.id' or 'header:x-id'. ${see}`,
    };
  if ('ofEach' in id) throw new TypeError(`${sender} has an id of each event and no events`);
  const place = placeText(id);
  const stays = 'fields' in id ? id.stays : undefined;
  if (delivery.kind === 'known')
    return { id: place, ...(stays === undefined ? {} : { compare: placesOf(stays) }) };
  if (delivery.said !== undefined)
    return { problem: delivery.said, instead: `If you know that it stays: dedupe = '${place}'. ${see}` };
  return {
    problem: `nobody has verified that the id at ${place} is one per event of ${name}, and the same when it tries again`,
    instead: `If you know that it is: dedupe = '${place}'. ${see}`,
  };
}

function placeText(id: Exclude<DeliveryId, { readonly ofEach: string }>): string {
  return 'header' in id ? printDeliveryId([{ header: id.header.toLowerCase() }]) : placesOf(id.fields);
}

function placesOf(fields: readonly (readonly string[])[]): string {
  return printDeliveryId(
    fields.map((path) => ({ path: path.map((key) => (/^\d+$/.test(key) ? Number(key) : key)) })),
  );
}

/** CREATE TABLE with the delivery's id as its key, and the sender's second secret, if named; null: no id is known to be one. */
export function keyedTable(
  sender: Sender,
  table: string,
  secretName: string,
  answerName: string | null = null,
): string | null {
  const { delivery, id: name } = sender;
  if (delivery.kind !== 'known' || 'ofEach' in delivery.id) return null;
  const { id } = delivery;
  const check = `WITH (${tableOptions(sender)})\n  VALIDATE SECRET ${secretName} USING ${name}${answerName === null ? '' : ` ANSWER SECRET ${answerName}`};`;
  if ('header' in id) {
    return `CREATE TABLE ${table} (${bodyColumn(sender)}, PRIMARY KEY (delivery))\n  INCLUDE HEADER ${quoteLiteral(id.header.toLowerCase())} AS delivery\n  ${check}`;
  }
  const columns = id.fields.map((path) => ({ name: columnOf(path), value: valueAt('data', path) }));
  const generated = ({ name, value }: { name: string; value: string }) =>
    `${name} TEXT GENERATED ALWAYS AS (${value}) STORED`;
  const body =
    columns.length === 1
      ? `data JSONB, ${columns.map(generated).join('')} PRIMARY KEY`
      : `\n  data JSONB,\n  ${columns.map(generated).join(',\n  ')},\n  PRIMARY KEY (${columns.map(({ name }) => name).join(', ')})\n`;
  return `CREATE TABLE ${table} (${body})\n  ${check}`;
}

/**
 * Reads each event once, if a request contains several; null: it contains one. By the event's id if that is known to be one, otherwise by
 * everything that it says: an event is then never taken for another.
 */
export function eachEvent({ delivery, events }: Sender, table: string): string | null {
  if (events === null) return null;
  const { at, json } = events;
  const list =
    at === undefined ? 'data' : json === true ? `(${valueAt('data', at)})::jsonb` : partAt('data', at);
  const id = delivery.kind === 'known' && 'ofEach' in delivery.id ? delivery.id.ofEach : null;
  const once = id === null ? 'DISTINCT' : `DISTINCT ON (coalesce(event->>'${id}', event::text))`;
  return `SELECT ${once} event\n  FROM ${table}, jsonb_array_elements(${list}) AS event;`;
}

export function repeatedSection(
  sender: Sender,
  table: string,
  secretName: string,
  answerName: string | null,
): string {
  return `## A delivery that is repeated

${retriesText(sender)}

${identified(sender, table, secretName, answerName)}
`;
}

function identified(sender: Sender, table: string, secretName: string, answerName: string | null): string {
  const each = eachEvent(sender, table);
  if (each !== null) return `${eachText(sender)}\n\n\`\`\`sql\n${each}\n\`\`\`\n`;
  const place = dedupeText(sender);
  const { delivery } = sender;
  if (delivery.kind === 'known') {
    const sql = keyedTable(sender, table, secretName, answerName) ?? '';
    const but = delivery.but === undefined ? '' : ` ${delivery.but}`;
    return `${told(delivery.id)}${but}

\`\`\`sql
${sql}
\`\`\`
${dedupeSection(sender, table, secretName, answerName)}
To try it, send one delivery twice: \`headgate send ${sender.id} … --repeat 2\`.
`;
  }
  if (!('problem' in place)) return '';
  const instead = place.instead
    .replace(/ ?See docs\/senders\/\S+\.md\.$/, '')
    .replace(/dedupe = '[^']*'/, '`$&`');
  const problem = place.problem.charAt(0).toUpperCase() + place.problem.slice(1);
  return `${problem}. So \`dedupe = 'sender'\` is refused, and a repeated delivery is another row.${instead === '' ? '' : ` ${instead}`}\n`;
}

/** Whether the sender tries again, and what our check of its clock makes of that. */
function retriesText({ retries, evidence, delivery, toleranceS, signatureHeader }: Sender): string {
  if (retries === null)
    return `${evidence.retries === undefined ? 'Nobody has verified' : 'No source was found that says'} whether and when the sender tries again after an answer other than 2xx${toleranceS === null ? '' : ', and whether it signs anew then'}.`;
  const { when, signed, lastS } = retries;
  if (when === null) return 'The sender never tries again by itself.';
  const valid = toleranceS === null ? '' : `A signature is valid for ${minutes(toleranceS)}`;
  const clock =
    toleranceS === null
      ? ''
      : signed === 'anew'
        ? ` Each attempt has a new time and a new signature, so the ${minutes(toleranceS)} of this check are enough.`
        : signed === 'as at first'
          ? ` Each attempt has the time and the signature of the first one, so a signature is valid for ${minutes(toleranceS)}.`
          : ` Whether it signs anew then is not documented. ${valid}${toleranceS >= (lastS ?? Infinity) ? ', longer than it tries.' : ': if its repetitions are refused as stale, spell the check out with a longer time, and tell us.'}`;
  const replay =
    toleranceS !== null && signed !== 'anew' && signatureHeader !== null && delivery.kind !== 'known'
      ? ` Within that time, somebody who has seen a request can send it again, but not change it; \`dedupe = 'header:${signatureHeader.toLowerCase()}'\` stores it once.`
      : toleranceS !== null && signed !== 'anew' && when !== null
        ? ' Within that time, somebody who has seen a request can send it again: the id below covers that.'
        : '';
  return `The sender tries again ${when}.${clock}${replay}`;
}

export function minutes(seconds: number): string {
  if (seconds % 3_600 === 0) return seconds === 3_600 ? 'an hour' : `${seconds / 3_600} hours`;
  return seconds % 60 === 0 && seconds > 60 ? `${seconds / 60} minutes` : `${seconds} seconds`;
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

A table that exists already, such as one made by \`headgate init ${sender.id}\`, gets it by \`ALTER TABLE ${table} SET (dedupe = 'sender:${sender.id}')\`.
`;
}

const article = (noun: string) => (/^[aeiou]/.test(noun) ? 'an' : 'a');

function eachText({ delivery, events }: Sender): string {
  const what = events?.what ?? 'event';
  const start = 'One request may contain several events, and a repeated request is stored as another row';
  if (delivery.kind === 'known' && 'ofEach' in delivery.id)
    return `${start}; but each ${what} keeps its \`${delivery.id.ofEach}\`.${delivery.but === undefined ? '' : ` ${delivery.but}`} This query reads every ${what} once:`;
  const why =
    delivery.kind === 'none'
      ? delivery.why
      : delivery.kind === 'unverified' && delivery.id !== null && 'ofEach' in delivery.id
        ? (delivery.said ??
          `Nobody has verified that \`${delivery.id.ofEach}\` is one per ${what}, and the same when it is repeated`)
        : `Nobody has verified that anything identifies ${article(what)} ${what}`;
  return `${start}. ${why}: so this query compares everything that ${article(what)} ${what} says, and reads equal ones once.`;
}

function told(id: DeliveryId): string {
  if ('ofEach' in id) return '';
  const what =
    'header' in id
      ? `in the header \`${id.header}\``
      : id.fields.length === 1
        ? `in \`${(id.fields[0] ?? []).join('.')}\` of its body`
        : `in ${id.fields.map((path) => `\`${path.at(-1)}\``).join(' and ')} of its body`;
  return `A repeated delivery has the same id, ${what}. With the id as its key, the table stores a delivery once and answers every repetition as if it had been stored; a request without the id is refused with 422:`;
}

/** `MessageID` → `message_id` */
function columnOf(path: readonly string[]): string {
  return (path.at(-1) ?? '')
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replaceAll(/\W+/g, ' ')
    .trim()
    .replaceAll(' ', '_')
    .toLowerCase();
}

const step = (key: string) => (/^\d+$/.test(key) ? key : quoteLiteral(key));
const partAt = (column: string, path: readonly string[]) =>
  path.reduce((inner, key) => `${inner}->${step(key)}`, column);
export const valueAt = (column: string, path: readonly string[]) =>
  `${partAt(column, path.slice(0, -1))}->>${step(path.at(-1) ?? '')}`;
