/**
 * The webhook senders that Headgate knows, by id. Takes the names of a sender and a secret, returns the VALIDATE
 * expression in full, or the sender's own signed request. Refuses nothing: an unknown name gives null. Pure.
 */
import { nearestNames } from '../kit/similar-names.ts';
import { answering } from './answers.ts';
import { formerChecks, formerExpressions, formerUntil } from './former-checks.ts';
import { bareIdentifier } from '../kit/sql-text.ts';
import { anySender } from './known/any-sender.ts';
import { knownSenders } from './known.ts';
import { questions } from './questions.ts';
import { type DedupePlace, dedupeText } from './dedupe.ts';
import type { Draft, Sender } from './sender.ts';

export const senders: ReadonlyMap<string, Sender> = new Map(
  knownSenders.map((sender) => [sender.id, withAnswers(sender)]),
);

const byAlias: ReadonlyMap<string, Sender> = new Map(
  [...senders.values()].flatMap((sender) => sender.aliases.map((alias) => [alias, sender])),
);

/** A sender by its id, or by another name that people have for it; undefined: no such sender. */
export function senderNamed(name: string): Sender | undefined {
  return senders.get(name) ?? byAlias.get(name);
}

/** How a sender's questions are answered is separate from how it signs, and its own side of the questions is separate again. */
function withAnswers(sender: Sender): Sender {
  return { ...sender, ...answering[sender.id], questions: questions[sender.id] ?? [] };
}

/** The expression as it is written after `VALIDATE SECRET secretName AS`. */
export function expressionOf(sender: Sender, secretName: string): string {
  return sender.expression(bareIdentifier(secretName));
}

/** `VALIDATE SECRET secretName USING senderName` in full; null: no such sender. */
export function expandSender(senderName: string, secretName: string): string | null {
  const sender = senderNamed(senderName);
  return sender === undefined ? null : expressionOf(sender, secretName);
}

/** Of those that sign alike the ones that stand for any of them. */
const anyOf: ReadonlySet<string> = new Set(anySender.map(({ id }) => id));

/**
 * The sender whose check this is or once was, with secrets of these names; null: none. Of those that sign alike, the one that a secret is
 * named after (`clio_events_secret`), or the one that stands for any of them, or the first.
 */
export function senderOf(expression: string, secrets: readonly string[]): Sender | null {
  if (secrets.length === 0) return null;
  const present = presentSendersOf(expression, secrets);
  const alike = present.length > 0 ? present : formerSendersOf(expression, secrets);
  return (
    alike.find((it) => isNamedAfter(it, secrets)) ?? alike.find(({ id }) => anyOf.has(id)) ?? alike[0] ?? null
  );
}

/** Whether a secret has the sender's name: `clio`, `clio_events_secret`. */
const isNamedAfter = ({ id }: Sender, secrets: readonly string[]): boolean =>
  secrets.some((name) => name === id || name.startsWith(`${id}_`));

/** The one of them that a secret is named after, alone; or all of `sendersOf`. */
export function sendersMeant(expression: string, secrets: readonly string[]): Sender[] {
  const all = sendersOf(expression, secrets);
  const named = all.find((it) => isNamedAfter(it, secrets));
  return named === undefined ? all : [named];
}

/** All senders that sign alike and whose check this is; after them those whose check it once was. */
export function sendersOf(expression: string, secrets: readonly string[]): Sender[] {
  if (secrets.length === 0) return [];
  return [...presentSendersOf(expression, secrets), ...formerSendersOf(expression, secrets)];
}

const presentSendersOf = (expression: string, secrets: readonly string[]): Sender[] =>
  [...senders.values()].filter((sender) => checkOf(sender.expression, secrets) === expression);

/** The check of several secrets accepts each of them. */
function checkOf(of: Sender['expression'], secrets: readonly string[]): string {
  const texts = secrets.map((name) => of(bareIdentifier(name)));
  return texts.length === 1 ? texts.join('') : texts.map((it) => `(${it})`).join('\nOR ');
}

function formerSendersOf(expression: string, secrets: readonly string[]): Sender[] {
  return [...senders.values()].filter((sender) =>
    formerExpressions(sender.id).some((of) => checkOf(of, secrets) === expression),
  );
}

/** What is different of a sender's check since a former one; null: it was never another. */
export function changeOf(senderName: string): string | null {
  const sender = senderNamed(senderName);
  const since = sender === undefined ? undefined : formerChecks[sender.id]?.since;
  return since === undefined
    ? null
    : `USING ${senderName} stood for another check until ${formerUntil}; since then: ${since}`;
}

/** The same of a check that `senderOf` has found this sender for; null: it is the sender's present one. */
export function formerCheck(sender: Sender, expression: string, secrets: readonly string[]): string | null {
  return checkOf(sender.expression, secrets) === expression ? null : changeOf(sender.id);
}

/** The ANSWER clauses that `USING senderName` brings. `second`: the name after ANSWER SECRET. */
export function expandAnswers(senderName: string, secretName: string, second: string | null): BroughtAnswers {
  const sender = senderNamed(senderName);
  if (sender === undefined) return { clauses: [], takesSecret: false, caution: null };
  const { id, name, answers, answerSecret } = sender;
  const answer = second === null ? null : bareIdentifier(second);
  const missing = answerSecret !== null && second === null;
  return {
    clauses: answers({ secret: bareIdentifier(secretName), answer }),
    takesSecret: answerSecret !== null,
    caution: missing
      ? {
          message: `the question that ${name} asks before it delivers will not be answered: that needs a second secret`,
          hint: `It is ${answerSecret.what} (${answerSecret.where}): ... USING ${id} ANSWER SECRET name.`,
        }
      : null,
  };
}

interface BroughtAnswers {
  readonly clauses: readonly string[];
  /** Whether some of them need a second secret. */
  readonly takesSecret: boolean;
  /** The warning if it is missing; null: none. */
  readonly caution: Caution | null;
}

/**
 * What a known sender requires in addition to its expression, and what to tell the owner of a table that cannot provide
 * it. In the texts `{secret}` stands for the secret's name. `publicUrl`: HEADGATE_PUBLIC_URL.
 */
export function demandsOf(senderName: string, publicUrl: string | null): SenderDemands {
  const sender = senderNamed(senderName);
  if (sender === undefined) return { form: null, cautions: [], changed: null };
  const { id, name, secretForm, secret, signsUrl, ended } = sender;
  const form = secretForm && {
    form: secretForm.id,
    message: `no request of ${name} will be accepted: secret "{secret}" is not ${secretForm.sentence}`,
    hint: `The secret is ${secret.what} (${secret.where}): ALTER SECRET {secret} AS '...'.`,
  };
  const url = {
    message: `no request of ${name} will be accepted: it signs the URL that it calls, and HEADGATE_PUBLIC_URL is not set`,
    hint: `Start Headgate with HEADGATE_PUBLIC_URL set to the scheme and host that the sender calls, e.g. https://hooks.example.com; see docs/senders/${id}.md.`,
  };
  const over =
    ended === null ? [] : [{ message: ended.replace(/\.$/, ''), hint: `See docs/senders/${id}.md.` }];
  const cautions = [...over, ...(signsUrl && publicUrl === null ? [url] : [])];
  return { form, cautions, changed: changeOf(senderName) };
}

/** A warning: `{secret}` in it stands for the secret's name. */
export interface Caution {
  readonly message: string;
  readonly hint: string;
}

/** Where a known sender has the id of a delivery, in the form of the option `dedupe`; null: no such sender. */
export function deliveryIdOf(senderName: string): DedupePlace | null {
  const sender = senderNamed(senderName);
  return sender === undefined ? null : dedupeText(sender);
}

export interface SenderDemands {
  /** The form of its secrets, and the warning for a secret of another form; null: any text will do. */
  readonly form: ({ readonly form: string } & Caution) | null;
  /** Why no request of this sender would be accepted, whatever the secret is. */
  readonly cautions: readonly Caution[];
  /** How its check differs from the one that it had before; null: it never had another. */
  readonly changed: string | null;
}

/** The ids most similar to an unknown name, best first: for the hint of an error. */
export function nearestSenders(name: string): readonly string[] {
  const ids = new Map(
    [...senders.values()].flatMap(({ id, aliases }) => [id, ...aliases].map((of) => [of, id])),
  );
  return [...new Set(nearestNames(name, ids.keys()).map((of) => ids.get(of) ?? of))].slice(0, 5);
}

/** What to say of a name that is no sender: the brand that sends in another's form, or the ids that are similar. */
export function hintForSender(name: string): string | null {
  const said = hintFor(name);
  if (said !== null) return said;
  const near = nearestSenders(name);
  return near.length === 0 ? null : `Perhaps ${near.join(', ')}?`;
}

export interface SignedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** The request as the sender sends it: content type, the event's headers and the signature. */
export function signedRequest(sender: Sender, draft: Draft): SignedRequest {
  const { headers, body = draft.body, url = draft.url } = sender.sign(draft);
  return {
    method: draft.method,
    url,
    headers: { 'Content-Type': sender.contentType, ...sender.eventHeaders(draft), ...headers },
    body,
  };
}

/** Services whose requests cannot be checked, or not by a name, and what there is instead. */
const others: Readonly<Record<string, string>> = {
  jotform:
    "Jotform signs nothing: a table with format = 'form' takes its multipart/form-data, and a text of yours in the URL guards it, secure_compare(query->>'token', s).",
  google_chat: 'Google Chat expects an answer that is computed from the request.',
  alexa: 'Alexa expects an answer that is computed from the request.',
  google: 'Google has several: USING google_pubsub, google_play, google_channels or youtube.',
  microsoft: 'Microsoft has several: USING microsoft_graph, sharepoint or azure_event_grid.',
  aws: 'AWS has several: USING aws_sns or aws_eventbridge.',
  amazon: 'AWS has several: USING aws_sns or aws_eventbridge.',
  adobe: 'Adobe has several: USING adobe_io or acrobat_sign.',
  supabase: 'Supabase has two: USING supabase_auth or supabase_database.',
  azure: 'Azure has USING azure_event_grid; Azure DevOps and Azure Monitor: USING basic_auth.',
  azure_devops: 'Azure DevOps sends the user and password of its service hook: USING basic_auth.',
  gmail: 'Gmail notifies through Pub/Sub: USING google_pubsub.',
  google_forms: 'Google Forms notifies through Pub/Sub: USING google_pubsub.',
  s3: 'S3 notifies through SNS or EventBridge: USING aws_sns or aws_eventbridge.',
  zapier: 'Zapier sends headers of your choice: USING bearer, basic_auth or api_key.',
  make: 'Make sends headers of your choice: USING bearer, basic_auth or api_key.',
  n8n: 'n8n sends headers of your choice: USING bearer, basic_auth or api_key.',
  freshdesk: 'Freshdesk sends headers of your choice: USING basic_auth or api_key.',
  opsgenie: 'Opsgenie sends headers of your choice: USING bearer, basic_auth or api_key.',
  google_fit:
    'Google Health has taken the place of Google Fit and Fitbit: its notifications are not known here yet.',
  atlassian: 'Atlassian has several: USING jira or bitbucket.',
};

/** A sentence about a name that is no sender; null: nothing is known of it. */
function hintFor(name: string): string | null {
  const wanted = plain(name);
  return Object.entries(others).find(([id]) => plain(id) === wanted)?.[1] ?? null;
}

const plain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
