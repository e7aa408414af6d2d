/**
 * The list after WITH, and the options of a webhook table that CREATE TABLE and ALTER TABLE … SET may give. Takes tokens, returns names with values as
 * they are written; takes an option, returns its value in the form that the catalog stores. Refuses repeated options (42601), unknown ones, values of
 * the wrong kind and options that need another one (22023), and names in them that are given twice (42701), with their position. Pure.
 */
import { StatementError } from './cursor.ts';
import type { Cursor } from './cursor.ts';
import { parseSubscriptions, parseTopics } from '../senders/sns-topics.ts';
import {
  parseCompare,
  parseDeliveryId,
  parseWindow,
  printDeliveryId,
  parseNewest,
  parseNewestWindow,
  printNewest,
} from '../types/table-options.ts';
import type { NewestPlace } from '../types/table-options.ts';
import { rowConditionProblem } from '../kit/row-condition.ts';
import { limits } from '../config/limits.ts';
import { deliveryIdOf } from '../senders/senders.ts';
import { logKindOf, logKinds, parseLog } from '../senders/delivery-logs.ts';
import { quoteIdentifier } from '../kit/sql-text.ts';

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
    const name = optionName(cursor);
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

export function optionName(cursor: Cursor): string {
  const parts = [cursor.identifier()];
  while (cursor.accept('.')) parts.push(cursor.identifier());
  return parts.join('.');
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

const asWritten = ({ value }: Option): string => value;

/** What ALTER TABLE … SET may change: options for values, keys and answers, not those that define what a row is. `using`: see changeableValue. */
const values: { readonly [name: string]: (option: Option, using: string | null) => string } = {
  on_type_error: (option) => oneOf(option, 'reject', 'null'),
  on_unknown: (option) => oneOf(option, 'ignore', 'reject', 'collect'),
  collect_into: asWritten,
  on_unstorable: (option) => oneOf(option, 'reject', 'replace'),
  form_files: (option) => oneOf(option, 'describe', 'content'),
  methods: methodsValue,
  spool: (option) => oneOf(option, 'off', 'fallback'),
  spool_status: (option) => oneOf(option, '202', '200'),
  dedupe: dedupeValue,
  dedupe_window: windowValue,
  dedupe_compare: compareValue,
  version: versionValue,
  version_equal: (option) => oneOf(option, 'stale', 'replace'),
  version_window: versionWindowValue,
  sns_topics: topicsValue,
  event_grid_subscriptions: subscriptionsValue,
  keep: keepOf,
  keep_if: keepIfOf,
  private: privateOf,
  readers: readersOf,
  inspect: (option) => oneOf(option, 'off', 'bodies'),
  distribute: waysOf,
  shards: shardsOf,
  reconcile: reconcileValue,
  every: everyValue,
  reconcile_secret: asWritten,
};

export const changeableOptions = Object.keys(values);

/** What only CREATE TABLE may say: what a row is. */
const lastingOptions = [
  'connector',
  'is_batched',
  'webhook.wait_for_persistence',
  'format',
  'document',
  'into',
];
export const tableOptions = [...lastingOptions, ...changeableOptions];

export function refuseLasting(name: string, at: number): void {
  if (!lastingOptions.includes(name)) return;
  throw new StatementError('22023', `option "${name}" is given to CREATE TABLE only`, at, {
    hint:
      name === 'connector'
        ? 'Only CREATE TABLE makes an endpoint: rename this table, create another one of its name, and copy the rows with INSERT INTO ... SELECT.'
        : 'Rename this table, create another one of its name with the option, and copy the rows with INSERT INTO ... SELECT.',
  });
}

/** As the catalog stores it. `using`: the sender after USING in the same statement; null: there is none. */
export function changeableValue(option: Option, using: string | null): string {
  return (values[option.name] ?? asWritten)(option, using);
}

const deliveryIdHint =
  "The forms are: dedupe = 'sender', 'sender:github', 'header:x-github-delivery', '$.event.id', or 'off'; several, with commas between, are the id together.";
/** The values of these headers must not be stored. */
const credentials = new Set(['authorization', 'cookie', 'proxy-authorization', 'set-cookie']);

/** `using`: the sender after USING in the same statement. */
function dedupeValue(option: Option, using: string | null): string {
  const { value, valueAt } = option;
  if (value.toLowerCase() === 'off') return 'off';
  const refuse = (message: string, more: string = deliveryIdHint): never => {
    throw new StatementError('22023', message, valueAt, { hint: more });
  };
  const named = senderIn(value);
  const sender = named?.[1]?.toLowerCase() ?? using;
  if (named !== null && sender === null)
    return refuse("dedupe = 'sender' needs VALIDATE ... USING in the same statement", nameIt([]));
  const known = named === null || sender === null ? { id: value } : deliveryIdOf(sender);
  if (known === null) return refuse(`unknown sender "${sender}"`);
  if ('problem' in known) return refuse(known.problem, known.instead);
  const parts = parseDeliveryId(known.id);
  if (parts === null) return refuse(`dedupe "${value}" is no place in a request`);
  const secret = parts.find((it) => 'header' in it && credentials.has(it.header));
  if (secret !== undefined) return refuse('a header that carries a credential is no delivery id');
  return printDeliveryId(parts);
}

/** `dedupe = 'sender'` without a name; null: the options do not say that. */
export function unnamedSender(options: readonly Option[]): Option | null {
  const option = optionOf(options, 'dedupe');
  return option !== null && senderIn(option.value) !== null && !option.value.includes(':') ? option : null;
}

/**
 * The sender that an ALTER TABLE means, of those whose check the table has: several may sign alike. Refuses if they have their ids in different
 * places, or if there is none.
 */
export function senderMeant(option: Option, candidates: readonly string[]): string {
  const [sender] = candidates;
  const places = new Set(candidates.map((it) => JSON.stringify(deliveryIdOf(it))));
  const withId = candidates.filter((it) => 'id' in (deliveryIdOf(it) ?? {}));
  // If none has an id, any of them is refused with its reason.
  if (sender !== undefined && (places.size === 1 || withId.length === 0)) return sender;
  throw new StatementError(
    '22023',
    sender === undefined
      ? "dedupe = 'sender' needs a table whose check is one of USING, and this table's is not, or is not committed yet"
      : `the table's check is that of several senders, ${candidates.join(', ')}, and no secret is named after one: dedupe = 'sender' does not say which`,
    option.valueAt,
    { hint: nameIt(withId) },
  );
}

const nameIt = (senders: readonly string[]): string =>
  senders.length === 0
    ? "Name the sender: dedupe = 'sender:<name>'. docs/senders has the names."
    : `Name it: ${senders.map((sender) => `dedupe = 'sender:${sender}'`).join(' or ')}.`;

const senderIn = (value: string) => /^sender(?::\s*(\w+))?$/i.exec(value);

/** `dedupe_compare` as the catalog stores it. */
function compareValue({ value, valueAt }: Option): string {
  const compare = parseCompare(value);
  const refuse = (message: string): never => {
    throw new StatementError('22023', message, valueAt, {
      hint: "The forms are: dedupe_compare = 'body', 'id', or places in the request, e.g. '$.type, $.data' or 'header:x-topic'.",
    });
  };
  if (compare === null) return refuse(`dedupe_compare "${value}" is not known`);
  if (compare === undefined || compare === 'id') return compare ?? 'body';
  if (compare.some((it) => 'header' in it && credentials.has(it.header)))
    return refuse('a header that carries a credential is not compared');
  return printDeliveryId(compare);
}

/** `dedupe_compare` of a statement that names only `dedupe`: that of the sender, or null: the bodies, whatever was compared before. */
export function impliedCompare(
  options: readonly Option[],
  using: string | null,
): { readonly dedupe_compare?: string | null } {
  const dedupe = optionOf(options, 'dedupe');
  if (dedupe === null || optionOf(options, 'dedupe_compare') !== null) return {};
  const named = senderIn(dedupe.value);
  const sender = named?.[1]?.toLowerCase() ?? using;
  const known = named === null || sender === null ? null : deliveryIdOf(sender);
  return { dedupe_compare: known !== null && 'compare' in known ? known.compare : null };
}

/** AWS SNS topics, as the catalog stores them. */
function topicsValue({ value, valueAt }: Option): string {
  const topics = parseTopics(value);
  if (topics !== null) return [...topics.keys()].join(', ');
  throw new StatementError('22023', 'sns_topics is not a list of topics', valueAt, {
    hint: "For example 'arn:aws:sns:eu-west-1:123456789012:orders', with commas between several.",
  });
}

/** Names of Event Grid subscriptions, as the catalog stores them. */
function subscriptionsValue({ value, valueAt }: Option): string {
  const names = parseSubscriptions(value);
  if (names !== null) return [...names].join(', ');
  throw new StatementError('22023', 'event_grid_subscriptions is not a list of names', valueAt, {
    hint: "For example 'orders', with commas between several.",
  });
}

function windowValue({ value, valueAt }: Option): string {
  if (parseWindow(value) !== null) return value.trim().toLowerCase();
  throw new StatementError('22023', `dedupe_window "${value}" is not known`, valueAt, {
    hint: "For example '7 days' or '12 hours'; from one minute to 90 days.",
  });
}

const versionHint =
  "The forms are: version = 'updated_at', 'header:x-version', '$.object.updated_at::timestamptz' (or ::numeric, ::text, ::pg_lsn), or 'off'; several, with commas between, are compared one after the other.";

function versionValue({ value, valueAt }: Option): string {
  if (value.toLowerCase() === 'off') return 'off';
  const places = parseNewest(value);
  if (places === null)
    throw new StatementError('22023', `version "${value}" is no place in a row`, valueAt, {
      hint: versionHint,
    });
  return printNewest(places);
}

function versionWindowValue({ value, valueAt }: Option): string {
  if (parseNewestWindow(value) !== null) return value.trim().toLowerCase();
  throw new StatementError('22023', `version_window "${value}" is not known`, valueAt, {
    hint: "For example '30 days' or '12 hours'; from one minute to 3650 days.",
  });
}

/** Bytes are counted as in PostgreSQL: a kB has 1,024. */
const most = {
  minute: 52_560_000,
  hour: 876_000,
  day: 36_500,
  row: 9_999_999_999,
  kb: 9_999_999_999,
  mb: 1_000_000_000,
  gb: 1_000_000,
  tb: 1_000,
} as const;

const bytes = { kb: 'kB', mb: 'MB', gb: 'GB', tb: 'TB' } as const;

/** How long rows stay, how many of them, or how many bytes, in one form; `all`: until somebody deletes them. */
function keepOf({ value, valueAt }: Option): string {
  if (value.toLowerCase() === 'all') return 'all';
  const form = /^\s*([1-9]\d{0,9})(?:\s+(minute|hour|day|row)s?|\s*([kmgt]b))\s*$/i;
  const [, digits = '', countable, sized] = form.exec(value) ?? [];
  const unit = (countable ?? sized ?? '').toLowerCase();
  if (!isUnit(unit))
    throw new StatementError('22023', `keep "${value}" is not known`, valueAt, {
      hint: "The form is: keep = '90 days', '36 hours', '1000000 rows', '10 GB' or 'all'.",
    });
  const name = unit in bytes ? bytes[unit as keyof typeof bytes] : `${unit}s`;
  if (Number(digits) > most[unit])
    throw new StatementError('22023', `keep has at most ${most[unit]} ${name}`, valueAt);
  return `${digits} ${name}`;
}

function isUnit(unit: string): unit is keyof typeof most {
  return Object.hasOwn(most, unit);
}

/** A condition on the row; empty: none. Whether it fits the table is PostgreSQL's to say (functions/statements.sql). */
function keepIfOf({ value, valueAt }: Option): string {
  const problem = value.trim() === '' ? null : rowConditionProblem(value);
  if (problem === null) return value.trim();
  throw new StatementError('22023', `keep_if is no condition on a row: ${problem}`, valueAt, {
    hint: "It may have columns, constants, comparisons, IS NULL, AND, OR, NOT, IN, CASE, now() and intervals: keep_if = 'done_at IS NOT NULL'.",
  });
}

function reconcileValue({ value, valueAt }: Option): string {
  if (value.toLowerCase() === 'off') return 'off';
  const log = parseLog(value);
  if (log !== null) return log.text;
  throw new StatementError('22023', `reconcile "${value}" is not known`, valueAt, {
    hint: `The forms are: ${logKinds.flatMap(({ forms }) => forms.map((form) => `'${form}'`)).join(', ')}, or 'off'.`,
  });
}

function everyValue({ value, valueAt }: Option): string {
  if (parseWindow(value, limits.reconcileEveryMinS, limits.reconcileEveryMaxS) !== null)
    return value.trim().toLowerCase();
  throw new StatementError('22023', `every "${value}" is not known`, valueAt, {
    hint: "For example '10 minutes' or '1 hour'; from one minute to a day.",
  });
}

/** As they are, without the options `version` and `reconcile`; with them, also what the catalog compares of these and does not store. */
export function withFactsOfVersionAndReconcile(options: {
  readonly [name: string]: string | boolean | null;
}): object {
  const { version, reconcile } = options;
  const places = typeof version === 'string' ? versionPlaces(version) : {};
  return { ...options, ...places, ...(typeof reconcile === 'string' ? neededDedupe(reconcile) : {}) };
}

/** The places that `version` names, for headgate.refuse_unversioned(), which knows the table's columns. */
function versionPlaces(version: string): { readonly version_places?: readonly NewestPlace[] } {
  const places = version === 'off' ? null : parseNewest(version);
  return places === null ? {} : { version_places: places };
}

/** The option `dedupe` that the log of `reconcile` needs. */
function neededDedupe(reconcile: string): { readonly reconcile_dedupe?: string | undefined } {
  const log = parseLog(reconcile);
  return log === null ? {} : { reconcile_dedupe: logKindOf(log.sender)?.dedupe };
}

/** Ways other than by a column; a column with such a name is written "in quotes". */
const ways = ['off', 'single', 'reference', 'schema'];
const shardsMax = 1_024;

function waysOf({ value, valueAt }: Option): string {
  const word = value.toLowerCase();
  if (ways.includes(word)) return word;
  if (value.trim() !== '') return value;
  throw new StatementError('22023', 'distribute names a column, or a way', valueAt, {
    hint: `The ways are: ${ways.join(', ')}.`,
  });
}

function shardsOf({ value, valueAt }: Option): string {
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

/** As a JSON array. */
function privateOf(option: Option): string {
  return JSON.stringify(namesOf(option, 'a list of columns', "private = 'done_at, attempts'"));
}

/** As in SQL. */
function readersOf(option: Option): string {
  return namesOf(option, 'a list of roles', "readers = 'agent, support'")
    .map((it) => (/^[a-z_][a-z0-9_]*$/.test(it) ? it : quoteIdentifier(it)))
    .join(', ');
}

/** Names as in SQL, with commas between them; an empty text: none. */
function namesOf({ name: option, value, valueAt }: Option, what: string, example: string): string[] {
  const names: string[] = [];
  const name = /\s*(?:"((?:[^"\0]|"")+)"|([\p{L}_][\p{L}\p{N}_$]*))\s*(,|$)/uy;
  for (let follows = value.trim() === '' ? '' : ','; follows === ',';) {
    const [, quoted, plain, next] = name.exec(value) ?? [];
    if (next === undefined)
      throw new StatementError('22023', `${option} is ${what}`, valueAt, {
        hint: `The form is: ${example}.`,
      });
    const it = quoted?.replaceAll('""', '"') ?? plain?.toLowerCase() ?? '';
    if (names.includes(it)) throw new StatementError('42701', `${option} has "${it}" twice`, valueAt);
    names.push(it);
    follows = next;
  }
  return names;
}

/** In the order in which they are written. */
const known = ['GET', 'POST', 'PUT', 'PATCH'] as const;

/** Names with commas between them, in any case and order. */
function methodsValue({ value, valueAt }: Option): string {
  const given = value.split(',').map((name) => name.trim().toUpperCase());
  const other = given.find((name) => !known.some((it) => it === name));
  if (other !== undefined)
    throw new StatementError('22023', `method "${other}" is not known`, valueAt, {
      hint:
        other === 'HEAD'
          ? "HEAD is answered and never stored: ANSWER UNCHECKED WHEN method = 'HEAD' STATUS 200."
          : `Known: ${known.join(', ')}. The form is: methods = 'GET, POST'.`,
    });
  return known.filter((name) => given.includes(name)).join(', ');
}
