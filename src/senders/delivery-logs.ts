/**
 * The senders whose API shows a log of deliveries, for the option `reconcile`. Takes the option's value, returns the log, or null. Pure.
 *
 * Others have none, as of November 2026: Shopify's API shows no deliveries, and asks apps to compare orders and products themselves (shopify.dev, “About
 * webhooks”); Mollie's shows one event by its id, and no list (docs.mollie.com, “Webhook Events API”); HubSpot's journal has its own subscriptions,
 * which deliver no webhooks (developers.hubspot.com, “Webhooks journal APIs”: “do not include a targetUrl field”).
 */
import type { DeliveryLog, LogKind } from './delivery-log.ts';
import { githubLog } from './known/github-log.ts';
import { stripeLog } from './known/stripe-log.ts';

export const logKinds: readonly LogKind[] = [githubLog, stripeLog];

export function logKindOf(sender: string): LogKind | null {
  return logKinds.find((it) => it.sender === sender) ?? null;
}

/** null: the text names no log. */
export function parseLog(text: string): DeliveryLog | null {
  const [, sender = '', of = ''] = /^([a-z_]+)(?::(.+))?$/.exec(text.trim()) ?? [];
  return logKindOf(sender)?.parse(of) ?? null;
}
