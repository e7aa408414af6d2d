/**
 * What the console's wizard knows about senders: the table of senders/ without what must not be shown, generated secrets,
 * and a test request. Takes ids, returns values; the test goes to this Headgate's own listener and nowhere else.
 */
import { randomBytes } from 'node:crypto';
import type { Me, SenderInfo, TestAnswer, TestRequest } from './api.ts';
import { columnText, includeText, keptColumns } from '../senders/sender-table.ts';
import type { Sender } from '../senders/sender.ts';
import { senders, signedRequest } from '../senders/senders.ts';
import { askOwn } from './own-listener.ts';

/** Sorted by name. */
export function senderInfos(): readonly SenderInfo[] {
  return [...senders.values()].map(infoOf).toSorted((a, b) => a.name.localeCompare(b.name, 'en'));
}

function infoOf(sender: Sender): SenderInfo {
  const { id, name, aliases, theme, secret, steps, delivery, signsUrl, handshake, secretForm, contentType } =
    sender;
  const { headers, signatureHeader } = sender;
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
    deliveryHeader: delivery.kind === 'known' && 'header' in delivery.id ? delivery.id.header : null,
    signsUrl,
    handshake,
    paired: sender.paired,
    form: secretForm?.sentence ?? null,
    contentType,
    headers,
    signatureHeader,
  };
}

/** null: no such sender exists, or it uses key pairs, of which Headgate has only one half. */
export function makeSecret(id: string): string | null {
  const sender = senders.get(id);
  return sender === undefined || sender.paired ? null : sender.makeSecret(randomBytes).secret;
}

/** null: no such sender or no listener exists, or the secret is not of the sender's form. */
export async function sendTest(test: TestRequest, at: Pick<Me, 'own' | 'base'>): Promise<TestAnswer | null> {
  if (at.own === null || at.base === null) return null;
  const path = `/webhook/${[test.database, test.schema, test.table].map(encodeURIComponent).join('/')}`;
  const made = requestOf(test, `${at.base}${path}`);
  if (made === null) return null;
  const { pathname, search } = new URL(made.url);
  const target = `${at.own}${at.base === at.own ? pathname : path}${search}`;
  return askOwn(target, {
    method: 'POST',
    headers: Object.entries(made.headers),
    body: Buffer.from(made.body),
  });
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
