/**
 * AWS SNS, for tables that name their topics, and Azure Event Grid, for tables that name their subscriptions, if
 * HEADGATE_CONFIRM_SUBSCRIPTIONS allows it: fetches the certificate that signs the messages of a topic, and confirms that a subscription
 * is wanted by opening a URL of the message.
 *
 *   a message that VALIDATE cannot check → is its topic ours → where its certificate is → fetch → does it verify → keep it
 *   a confirmation that was stored → its URL, part by part → fetch
 *
 * The sender chooses no part of a URL: scheme, host, path and query are compared with those of the topic's own region, and the topic is
 * that of the signed body. Takes a target and a body; touches the network only through `fetch`, at a rate of its own. Refuses with
 * `table_unusable` (503) if the certificate cannot be fetched now: SNS tries again, which it would not after a 4xx.
 */
import { verify, X509Certificate } from 'node:crypto';
import { RateLimit } from '../access/rate-limit.ts';
import type { Fetch } from '../access/outgoing.ts';
import type { Learning } from './learning.ts';
import { readMessage, topicOf } from '../senders/sns-topics.ts';
import type { SnsMessage, Topic } from '../senders/sns-topics.ts';
import type { Target } from '../types/target.ts';
import type { StageContext } from '../observe/context.ts';
import { Refused } from '../errors/refusals.ts';
import { limits } from '../config/limits.ts';

/** Which services may be called: HEADGATE_CONFIRM_SUBSCRIPTIONS. */
interface AllowedServices {
  readonly sns: boolean;
  readonly eventGrid: boolean;
}

export class Sns {
  readonly #allows: AllowedServices;
  readonly #fetch: Fetch;
  readonly #learning: Pick<Learning, 'keepCertificate'>;
  readonly #context: StageContext;
  /** Separate: strangers can cause fetches of certificates, and must not use up the rate of confirmations. */
  readonly #rates: { readonly certificates: RateLimit; readonly confirmations: RateLimit };
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;

  constructor(
    allows: AllowedServices,
    fetch: Fetch,
    learning: Pick<Learning, 'keepCertificate'>,
    context: StageContext,
  ) {
    this.#allows = allows;
    this.#fetch = fetch;
    this.#learning = learning;
    this.#context = context;
    const { outgoingPerHour: count, outgoingBurst: burst } = context.limits;
    const rate = () => new RateLimit({ count, perMs: 3_600_000, burst }, 1);
    this.#rates = { certificates: rate(), confirmations: rate() };
  }

  /** Whether the table has a new certificate now, with which this message is to be checked again. */
  async certify(target: Target, body: Buffer): Promise<boolean> {
    const message = readMessage(body);
    const { sns } = target;
    const topic = sns === undefined || !this.#allows.sns ? null : topicOf(message, sns.topics);
    const url = message === null || topic === null ? null : certificateUrl(message, topic);
    if (message === null || url === null) return false;
    if (this.#rates.certificates.take('', this.#context.clock()) > 0) throw new Refused('table_unusable');
    let certificate: string;
    try {
      certificate = (await this.#fetch(url)).toString('latin1');
    } catch (error) {
      this.#failed(target, error);
      throw new Refused('table_unusable');
    }
    const current = target.sns?.secret.value ?? '';
    if (!verifies(message, certificate) || !isNewer(certificate, current)) return false;
    const kept = await this.#learning.keepCertificate(target, certificate);
    if (kept) this.#context.observe({ kind: 'sns.certificate', table: target });
    return kept;
  }

  /** Called for a message that was accepted and stored. Never throws; the confirmation is not awaited. */
  stored(target: Target, body: Buffer): void {
    if (typeof target.check !== 'function') return;
    const allows = this.#allows;
    const { sns, eventGrid } = target;
    if (sns !== undefined && allows.sns) this.#open(target, 'sns', confirmationUrl(body, sns.topics));
    if (eventGrid !== undefined && allows.eventGrid)
      this.#open(target, 'event_grid', validationUrl(body, eventGrid));
  }

  /** `url` undefined: there is nothing to confirm; null: it is not the URL that it has to be. */
  #open(target: Target, whose: Whose, url: URL | null | undefined): void {
    if (url === undefined) return;
    if (url === null)
      return this.#failed(target, new Error('its URL is not the one that confirms it'), whose);
    const { limits, clock } = this.#context;
    if (this.#waiting >= limits.snsConfirmingMax || this.#rates.confirmations.take('', clock()) > 0)
      return this.#failed(target, new Error('too many subscriptions at one time'), whose);
    this.#waiting += 1;
    // One at a time.
    this.#last = this.#last.then(() => this.#confirm(target, whose, url));
  }

  async #confirm(target: Target, whose: Whose, url: URL): Promise<void> {
    try {
      await this.#fetch(url);
      this.#context.observe({ kind: `${whose}.confirmed`, table: target });
    } catch (error) {
      this.#failed(target, error, whose);
    }
    this.#waiting -= 1;
  }

  #failed(table: Target, error: unknown, whose: Whose = 'sns'): void {
    const reason = error instanceof Error ? error.message : String(error);
    this.#context.observe({ kind: `${whose}.failed`, table, reason });
  }
}

type Whose = 'sns' | 'event_grid';

function confirmationUrl(body: Buffer, topics: ReadonlyMap<string, Topic>): URL | null | undefined {
  const message = readMessage(body);
  if (message?.['Type'] !== 'SubscriptionConfirmation') return undefined;
  const topic = topicOf(message, topics);
  return topic === null ? null : subscribeUrl(message, topic);
}

function plainUrl(text: unknown): URL | null {
  // A URL that a parser would correct is not the one that was signed.
  if (typeof text !== 'string' || !/^https:\/\/[!-~]{1,2048}$/.test(text) || /[\\@#]/.test(text)) return null;
  return URL.canParse(text) ? new URL(text) : null;
}

/** null: it is not where the topic's region has its certificates. */
export function certificateUrl(message: SnsMessage, { host }: Topic): URL | null {
  const url = plainUrl(message['SigningCertURL'] ?? message['SigningCertUrl']);
  if (url === null || url.host !== host || url.search !== '') return null;
  return /^\/SimpleNotificationService-[0-9a-f]{32}\.pem$/.test(url.pathname) ? url : null;
}

/** null: it does anything but confirm this subscription. */
export function subscribeUrl(message: SnsMessage, { arn, host }: Topic): URL | null {
  const url = plainUrl(message['SubscribeURL']);
  const token = message['Token'];
  if (url === null || typeof token !== 'string' || !/^[0-9A-Za-z]{1,1024}$/.test(token)) return null;
  if (url.host !== host || url.pathname !== '/') return null;
  const wanted = new Map([
    ['Action', 'ConfirmSubscription'],
    ['TopicArn', arn],
    ['Token', token],
  ]);
  const given = [...url.searchParams];
  const same = given.length === wanted.size && given.every(([name, value]) => wanted.get(name) === value);
  return same && new Set(given.map(([name]) => name)).size === wanted.size ? url : null;
}

/** An old message that is sent again must not bring its old certificate back. */
function isNewer(certificate: string, current: string): boolean {
  const { validFrom, validTo } = new X509Certificate(certificate);
  if (Date.parse(validTo) < Date.now()) return false;
  try {
    return Date.parse(validFrom) > Date.parse(new X509Certificate(current).validFrom);
  } catch {
    // There is none yet.
    return true;
  }
}

const fields = ['Message', 'MessageId', 'Subject', 'SubscribeURL', 'Timestamp', 'Token', 'TopicArn', 'Type'];

function verifies(message: SnsMessage, certificate: string): boolean {
  const text = fields
    .filter((name) => message[name] !== undefined)
    .map((name) => `${name}\n${String(message[name])}\n`)
    .join('');
  const algorithm = message['SignatureVersion'] === '2' ? 'sha256' : 'sha1';
  try {
    const { publicKey } = new X509Certificate(certificate);
    if (publicKey.asymmetricKeyType !== 'rsa') return false;
    return verify(
      algorithm,
      Buffer.from(text),
      publicKey,
      Buffer.from(String(message['Signature']), 'base64'),
    );
  } catch {
    return false;
  }
}

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
