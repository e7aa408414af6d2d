/**
 * The options `dedupe`, `dedupe_window`, `dedupe_compare`, `sns_topics` and `event_grid_subscriptions`: takes their values, returns what the
 * catalog stores. `sender` stands for where the sender of USING has a delivery's id. Refuses (22023) with their position. Pure.
 */
import { parseSubscriptions, parseTopics } from '../senders/sns-topics.ts';
import { parseCompare, parseDeliveryId, parseWindow, printDeliveryId } from '../types/delivery-id.ts';
import { StatementError } from './cursor.ts';
import { optionOf } from './options.ts';
import type { Option } from './options.ts';

/**
 * Where a known sender has a delivery's id, and what its repetitions have in common besides (absent: their bodies), as text; or, in a
 * sentence, why none is believed, and what to do. null: no such sender.
 */
export type DeliveryIdOf = (
  sender: string,
) =>
  | { readonly id: string; readonly compare?: string }
  | { readonly problem: string; readonly instead: string }
  | null;

const hint =
  "The forms are: dedupe = 'sender', 'sender:github', 'header:x-github-delivery', '$.event.id', or 'off'; several, with commas between, are the id together.";
/** The values of these headers must not be stored. */
const credentials = new Set(['authorization', 'cookie', 'proxy-authorization', 'set-cookie']);

/** `using`: the sender after USING in the same statement. */
export function dedupeValue(option: Option, using: string | null, deliveryIdOf: DeliveryIdOf): string {
  const { value, valueAt } = option;
  if (value.toLowerCase() === 'off') return 'off';
  const refuse = (message: string, more: string = hint): never => {
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
export function senderMeant(
  option: Option,
  candidates: readonly string[],
  deliveryIdOf: DeliveryIdOf,
): string {
  const [sender] = candidates;
  const places = new Set(candidates.map((it) => JSON.stringify(deliveryIdOf(it))));
  const withId = candidates.filter((it) => 'id' in (deliveryIdOf(it) ?? {}));
  // If none has an id, any of them is refused with its reason.
  if (sender !== undefined && (places.size === 1 || withId.length === 0)) return sender;
  throw new StatementError(
    '22023',
    sender === undefined
      ? "dedupe = 'sender' needs a table whose check is one of USING, and this table's is not, or is not committed yet"
      : `the table's check is that of several senders: ${candidates.join(', ')}`,
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
export function compareValue({ value, valueAt }: Option): string {
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
  deliveryIdOf: DeliveryIdOf,
): { readonly dedupe_compare?: string | null } {
  const dedupe = optionOf(options, 'dedupe');
  if (dedupe === null || optionOf(options, 'dedupe_compare') !== null) return {};
  const named = senderIn(dedupe.value);
  const sender = named?.[1]?.toLowerCase() ?? using;
  const known = named === null || sender === null ? null : deliveryIdOf(sender);
  return { dedupe_compare: known !== null && 'compare' in known ? known.compare : null };
}

/** AWS SNS topics, as the catalog stores them. */
export function topicsValue({ value, valueAt }: Option): string {
  const topics = parseTopics(value);
  if (topics !== null) return [...topics.keys()].join(', ');
  throw new StatementError('22023', 'sns_topics is not a list of topics', valueAt, {
    hint: "For example 'arn:aws:sns:eu-west-1:123456789012:orders', with commas between several.",
  });
}

/** Names of Event Grid subscriptions, as the catalog stores them. */
export function subscriptionsValue({ value, valueAt }: Option): string {
  const names = parseSubscriptions(value);
  if (names !== null) return [...names].join(', ');
  throw new StatementError('22023', 'event_grid_subscriptions is not a list of names', valueAt, {
    hint: "For example 'orders', with commas between several.",
  });
}

export function windowValue({ value, valueAt }: Option): string {
  if (parseWindow(value) !== null) return value.trim().toLowerCase();
  throw new StatementError('22023', `dedupe_window "${value}" is not known`, valueAt, {
    hint: "For example '7 days' or '12 hours'; from one minute to 90 days.",
  });
}
