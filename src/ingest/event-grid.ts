/**
 * The URL that confirms a subscription of Azure Event Grid, for tables that name their subscriptions and do not answer its code.
 * Takes the body of an accepted request; returns the URL. The sender chooses only the parts of it that name this very validation. Pure.
 */
import { readMessage } from '../senders/sns-topics.ts';
import { limits } from '../config/limits.ts';

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** Event Grid listens there only for validations. */
const host = /^rp-[a-z0-9]{2,40}\.eventgrid\.azure\.net:553$/;
const wanted = ['apiVersion', 'id', 't', 'token'];

/** undefined: the request asks for no validation; null: its URL does anything but validate one of these subscriptions. */
export function validationUrl(body: Buffer, subscriptions: ReadonlySet<string>): URL | null | undefined {
  const event = onlyItem(body);
  if (event?.['eventType'] !== 'Microsoft.EventGrid.SubscriptionValidationEvent') return undefined;
  const { validationUrl: text, validationCode: code } = (event['data'] ?? {}) as Record<string, unknown>;
  // Event Grid writes no URL that a parser would have to correct.
  if (typeof text !== 'string' || !/^https:\/\/[!-~]{1,2048}$/.test(text) || /[\\@#]/.test(text)) return null;
  if (!URL.canParse(text)) return null;
  const url = new URL(text);
  const [, name = ''] = /^\/eventsubscriptions\/([A-Za-z0-9-]{3,64})\/validate$/.exec(url.pathname) ?? [];
  if (!host.test(url.host) || !subscriptions.has(name.toLowerCase())) return null;
  const names = [...url.searchParams.keys()];
  if (new Set(names).size !== names.length || !names.every((it) => wanted.includes(it))) return null;
  const id = url.searchParams.get('id');
  return id !== null && uuid.test(id) && id === code ? url : null;
}

function onlyItem(body: Buffer): Readonly<Record<string, unknown>> | null {
  if (body.length > limits.eventGridMessageBytesMax || body[0] !== 0x5b) return null;
  // The one object between the brackets.
  const end = body.lastIndexOf(']');
  return end === -1 ||
    body
      .subarray(end + 1)
      .toString()
      .trim() !== ''
    ? null
    : readMessage(body.subarray(1, end));
}
