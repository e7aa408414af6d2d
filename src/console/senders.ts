/**
 * What the console's wizard knows about senders: the table of senders/ without what must not be shown, generated secrets,
 * and a test request. Takes ids, returns values; the test goes to this Headgate's own listener and nowhere else.
 */
import { randomBytes } from 'node:crypto';
import type { SenderCheck, SenderInfo, SenderName, TestAnswer, TestRequest } from './api.ts';
import { columnText, includeText, keptColumns } from '../senders/sender-table.ts';
import { takesYours } from '../senders/sender.ts';
import type { Sender } from '../senders/sender.ts';
import { senderOf, senders, signedRequest } from '../senders/senders.ts';
import { Refused } from '../errors/refusals.ts';
import { dedupeText } from '../senders/dedupe.ts';
import { replayed } from './replay.ts';
import type { ReplayListener } from './replay.ts';
import { askOwn } from './send-to-listener.ts';

/** Those that most people begin with, in this order on the page. */
const popular =
  'stripe github shopify slack twilio_form paypal linear zendesk adyen sendgrid hubspot meta'.split(' ');

/** Sorted by name. */
export function senderInfos(): readonly SenderInfo[] {
  return [...senders.values()].map(infoOf).toSorted((a, b) => a.name.localeCompare(b.name, 'en'));
}

function infoOf(sender: Sender): SenderInfo {
  const { id, name, aliases, theme, secret, steps, signsUrl, handshake, secretForm, contentType } = sender;
  const { headers, signatureHeader } = sender;
  const once = dedupeText(sender);
  return {
    id,
    name,
    aliases,
    theme,
    what: secret.what,
    where: secret.where,
    steps,
    format: sender.format,
    columns: keptColumns(sender).flatMap((it) => columnText(it) ?? []),
    includes: keptColumns(sender).flatMap((it) => includeText(it) ?? []),
    once: 'id' in once ? once.id : null,
    rank: popular.includes(id) ? popular.indexOf(id) + 1 : null,
    chosen: takesYours(sender),
    toleranceS: sender.toleranceS,
    answerSecret: sender.answerSecret,
    ended: sender.ended,
    learns: sender.answers({ secret: 's', answer: 'a' }).some((clause) => clause.includes('\n  LEARN ')),
    signsUrl,
    handshake,
    paired: sender.paired,
    form: secretForm?.sentence ?? null,
    contentType,
    headers,
    signatureHeader,
  };
}

/**
 * null: no such sender exists, or it uses key pairs, of which Headgate has only one half. A `placeholder` is of the sender's form, and
 * nobody can sign with it: the table refuses everything until it gets the sender's own secret.
 */
export function makeSecret(id: string, placeholder: boolean): string | null {
  const sender = senders.get(id);
  if (sender === undefined || (sender.paired && !placeholder)) return null;
  if (!sender.paired) return sender.makeSecret(randomBytes).secret;
  // A pair takes a while to make, and nobody has its private half: one is enough.
  const known = publicHalves.get(id) ?? sender.makeSecret(randomBytes).secret;
  publicHalves.set(id, known);
  return known;
}

/** By sender. */
const publicHalves = new Map<string, string>();

/** The sender whose check this is; null: it is an expression of its own. */
export function whichSender({ expression, secrets }: SenderCheck): SenderName | null {
  const sender = senderOf(expression, secrets);
  return sender === null ? null : { id: sender.id, name: sender.name };
}

/** What a secret of this sender must be, if this is none; null: it may be one. */
export function wrongSecret(id: string, secret: string): string | null {
  const form = senders.get(id)?.secretForm ?? null;
  return form === null || form.test(secret) ? null : form.sentence;
}

/** null: no such sender or no listener exists, or the secret is not of the sender's form. */
export async function sendTest(
  test: TestRequest,
  who: { readonly user: string; readonly database: string },
  at: ReplayListener,
): Promise<TestAnswer | null> {
  if (at.own === null || at.base === null) return null;
  if (test.sender !== '' && test.secret === '') return sendWithOwn(test, who, at);
  const path = `/webhook/${[test.database, test.schema, test.table].map(encodeURIComponent).join('/')}`;
  const made = requestOf(test, `${at.base}${path}`);
  if (made === null) return null;
  const { pathname, search } = new URL(made.url);
  const target = `${at.own}${at.base === at.own ? pathname : path}${search}`;
  const body = Buffer.from(made.body);
  const answer = await askOwn(target, { method: 'POST', headers: Object.entries(made.headers), body });
  return { ...answer, body: body.toString('base64') };
}

/** Signed with the table's own secret, which the role must be entitled to; throws as `replayed` does. */
async function sendWithOwn(
  test: TestRequest,
  who: { readonly user: string; readonly database: string },
  at: ReplayListener,
): Promise<TestAnswer | null> {
  const sender = senders.get(test.sender);
  if (sender === undefined) return null;
  // Only the signature is replaced.
  const made = requestOf({ ...test, secret: sender.makeSecret(randomBytes).signingKey }, `${at.base}/`);
  if (made === null) {
    if (!sender.paired) return null;
    throw new Refused(
      'replay_impossible',
      `${sender.name} signs with a private key, which only ${sender.name} has: let it send a test`,
    );
  }
  const body = Buffer.from(made.body).toString('base64');
  const { schema, table } = test;
  const headers = Object.entries(made.headers);
  const replay = {
    schema,
    table,
    method: 'POST',
    query: '',
    headers,
    body,
    sign: true,
    checked: true,
    vouched: '',
  };
  return { ...(await replayed(replay, who, at)), body };
}

function requestOf({ sender: id, secret }: TestRequest, url: string) {
  if (id === '') return { url, headers: { 'Content-Type': 'application/json' }, body: '{"hello":"world"}' };
  const sender = senders.get(id);
  if (sender === undefined || sender.paired) return null;
  const [nowMs, delivery] = [Date.now(), randomBytes(16).toString('hex')];
  try {
    const body = Buffer.from(sender.example({ id: delivery, nowMs }));
    return signedRequest(sender, { method: 'POST', url, body, nowMs, signingKey: secret, id: delivery });
  } catch {
    // The error may quote the secret.
    return null;
  }
}
