/**
 * The events of a Stripe account (docs.stripe.com/api/events/list, November 2026): of the last 30 days, the newest first, at most 100 a page, the next page
 * by `starting_after`; an event has the form of its API version at its creation, as in a webhook, but no signature. With an endpoint named, its
 * `enabled_events` say which events it gets (docs.stripe.com/api/webhook_endpoints/object). Pure.
 */
import { Elements, Members, skipSpace } from '../../kit/json-walk.ts';
import { jsonOf, LogUnreadable, momentOf, plainText } from '../delivery-log.ts';
import type { DeliveryLog, LogFilter, LoggedDelivery, LogKind, LogPage } from '../delivery-log.ts';

export const stripeLog: LogKind = {
  sender: 'stripe',
  name: 'Stripe',
  api: 'https://api.stripe.com',
  dedupe: '$.id',
  keptS: 30 * 86_400,
  // docs.stripe.com/rate-limits: 25 requests a second in a sandbox.
  readPauseMs: 100,
  againPauseMs: 100,
  parse,
  forms: ['stripe:<id of the endpoint, we_…>', 'stripe'],
};

function parse(of: string): DeliveryLog | null {
  if (of !== '' && !/^we_[A-Za-z0-9]{1,64}$/.test(of)) return null;
  return {
    sender: 'stripe',
    text: of === '' ? 'stripe' : `stripe:${of}`,
    headers: (token) => ({ Authorization: `Bearer ${token}` }),
    filter:
      of === '' ? null : { call: { method: 'GET', path: `/v1/webhook_endpoints/${of}` }, read: readEndpoint },
    page: (cursor, fromMs) => ({
      method: 'GET',
      path: `/v1/events?limit=100&created%5Bgte%5D=${Math.floor(fromMs / 1_000)}${cursor === null ? '' : `&starting_after=${encodeURIComponent(cursor)}`}`,
    }),
    read: (body, _, filter) => readPage(body, filter),
    again: (logId) => ({ method: 'GET', path: `/v1/events/${encodeURIComponent(logId)}` }),
    fetched: (body) => eventOf(jsonOf(body), body),
  };
}

function readEndpoint(body: Buffer): LogFilter {
  const { enabled_events: listed } = objectOf(jsonOf(body));
  if (!Array.isArray(listed)) throw new LogUnreadable('enabled_events is no list');
  const types = new Set(listed.map(String));
  return types.has('*') ? () => true : (type) => types.has(type);
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return value as Readonly<Record<string, unknown>>;
  throw new LogUnreadable('the answer is no object');
}

function readPage(body: Buffer, filter: LogFilter | null): LogPage {
  const page = objectOf(jsonOf(body));
  if (!Array.isArray(page['data'])) throw new LogUnreadable('data is no list');
  const texts = dataOf(body);
  if (texts.length !== page['data'].length) throw new LogUnreadable('data is given twice');
  const events = page['data'].map((item, i) => ({
    type: String(objectOf(item)['type']),
    delivery: eventOf(item, texts[i] ?? Buffer.alloc(0)),
  }));
  const last = events.at(-1)?.delivery;
  return {
    deliveries: events.filter(({ type }) => filter?.(type) ?? true).map(({ delivery }) => delivery),
    cursor: page['has_more'] === true && last !== undefined ? last.logId : null,
  };
}

function eventOf(item: unknown, body: Buffer): LoggedDelivery {
  const event = objectOf(item);
  const id = plainText(event['id'], 'id');
  return { id, logId: id, atMs: momentOf(Number(event['created']) * 1_000, 'created'), body };
}

/** The items of `data` as they are written: a number keeps its digits. */
function dataOf(body: Buffer): Buffer[] {
  const wanted = Buffer.from('data');
  const members = new Members(body, skipSpace(body, 0));
  const items: Buffer[] = [];
  while (members.next()) {
    if (!members.keyIs(wanted)) continue;
    const elements = new Elements(body, members.valueStart);
    items.length = 0;
    while (elements.next()) items.push(Buffer.from(body.subarray(elements.start, elements.end)));
  }
  return items;
}
