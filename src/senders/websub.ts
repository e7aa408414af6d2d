/**
 * `headgate websub`: subscribes at a WebSub hub, and renews the subscription before it ends. The table answers the hub's question
 * whether the subscription is intended (`USING websub ANSWER SECRET …`); this is the other side. Takes a topic and the URL of the
 * table, finds the hub that the topic names, sends it the request, and repeats it in time until it is interrupted. Refuses (SendError,
 * one line) what no hub would accept. Touches the network and the streams that it is given.
 */
import { backoffMs } from '../kit/backoff.ts';
import { hostOf, isLoopbackHost } from '../kit/address.ts';
import { parseWindow } from '../types/table-options.ts';
import { limits } from '../config/limits.ts';
import type { SentAnswer, SendClient } from './send-client.ts';
import { SendError, secretOf, urlOf } from './send-options.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { type HandshakeQuery, formType } from './sender.ts';

export interface WebsubOptions {
  readonly topic: string;
  /** The URL of the table. */
  readonly callback?: string | undefined;
  /** Replaces the hub that the topic names. */
  readonly hub?: string | undefined;
  readonly secret?: string | undefined;
  readonly secretFile?: string | undefined;
  /** The requested lease; the hub may grant less. */
  readonly lease?: string | undefined;
  /** How often to renew, instead of twice per lease. */
  readonly every?: string | undefined;
  readonly once?: boolean | undefined;
  readonly unsubscribe?: boolean | undefined;
}

interface WebsubIo extends Pick<CommandIo, 'print' | 'note' | 'read' | 'ask' | 'signal'> {
  /** Resolves after that time, or when the signal ends it. */
  readonly pause: (ms: number) => Promise<void>;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  readonly client: Pick<SendClient, 'send'>;
}

const interrupted = 130;

export async function websubCommand(options: WebsubOptions, io: WebsubIo): Promise<number> {
  const topic = urlOf(options.topic, 'topic');
  const form = await formOf(options, io);
  const everyMs = secondsOf(options.every, '--every', Number(form.get('hub.lease_seconds')) / 2) * 1000;
  const once = options.once === true || options.unsubscribe === true;
  let hub = options.hub === undefined ? null : urlOf(options.hub, '--hub');
  for (let failures = 0; ;) {
    try {
      hub ??= await hubOf(topic, io);
      refuseOpen(hub, form, options.hub !== undefined);
      const { status } = await send(io, hub, form.toString());
      if (status < 200 || status > 299) throw new SendError(`the hub ${hub} answered ${status}`);
      io.print(`${hub} accepted the request (${status}), and now asks the URL of the table to confirm it\n`);
      failures = 0;
    } catch (error) {
      if (io.signal.aborted) return interrupted;
      if (once || !(error instanceof SendError) || error instanceof Unmendable) throw error;
      failures++;
      io.note(`${error.message}\n`);
      // The feed may name another hub by now.
      if (options.hub === undefined) hub = null;
    }
    if (once) return 0;
    const { websubRetryMinMs: minMs, websubRetryMs: maxMs } = limits;
    await io.pause(
      failures === 0 ? everyMs : Math.min(everyMs, backoffMs(failures, minMs, maxMs, io.random)),
    );
    if (io.signal.aborted) return interrupted;
  }
}

/** Trying again would not help. */
class Unmendable extends SendError {}

async function formOf(options: WebsubOptions, io: WebsubIo): Promise<URLSearchParams> {
  const leaseS = secondsOf(options.lease, '--lease', limits.websubLeaseS);
  const form = new URLSearchParams({
    'hub.mode': options.unsubscribe === true ? 'unsubscribe' : 'subscribe',
    // Unchanged: the table compares it character by character.
    'hub.topic': options.topic,
    'hub.callback': urlOf(options.callback, '--callback'),
    'hub.lease_seconds': String(leaseS),
    // Older hubs, from before the recommendation, require this parameter.
    'hub.verify': 'async',
  });
  if (options.unsubscribe === true) return form;
  const secret = await secretOf(options, io);
  if (Buffer.byteLength(secret) > 199)
    throw new SendError('the secret is longer than the 199 bytes that WebSub allows');
  form.set('hub.secret', secret);
  return form;
}

function secondsOf(text: string | undefined, option: string, otherwise: number): number {
  if (text === undefined) return otherwise;
  const seconds = parseWindow(text, 60, limits.websubLeaseMaxS);
  if (seconds === null)
    throw new SendError(
      `${option}: "${text}" is not a time from one minute to ${limits.websubLeaseMaxS / 86_400} days, such as "5 days"`,
    );
  return seconds;
}

/** The key of the table's check is sent to the hub. A feed cannot name a hub on this machine without TLS: only the user can. */
function refuseOpen(hub: string, form: URLSearchParams, isGiven: boolean): void {
  const url = new URL(hub);
  if (form.has('hub.secret') && url.protocol === 'http:' && !(isGiven && isLoopbackHost(hostOf(url))))
    throw new Unmendable(`the hub ${hub} is not https, so the secret would be sent to it in clear text`);
}

async function hubOf(topic: string, io: WebsubIo): Promise<string> {
  const { status, headers, body } = await send(io, topic, null);
  if (status !== 200) throw new SendError(`the topic answered ${status}: name its hub with --hub`);
  const named = hubInHeader(headers['link'] ?? '') ?? hubInDocument(body);
  if (named === null || !URL.canParse(named, topic))
    throw new SendError('the topic names no hub: give it with --hub');
  return urlOf(new URL(named, topic).href, 'the hub of the topic');
}

/** `<https://hub.example/>; rel="hub", …` */
export function hubInHeader(link: string): string | null {
  for (const [, url = '', parameters = ''] of link.matchAll(
    /<([^<>]*)>((?:\s*;\s*[\w*-]+\s*=\s*(?:"[^"]*"|[^",;\s]+))*)/g,
  )) {
    const [, quoted, bare = ''] = /;\s*rel\s*=\s*(?:"([^"]*)"|([^",;\s]+))/i.exec(parameters) ?? [];
    if (isHub(quoted ?? bare)) return url;
  }
  return null;
}

/** `<link rel="hub" href="…">` of HTML, or of an Atom or RSS feed. */
export function hubInDocument(text: string): string | null {
  for (const [tag] of text.matchAll(/<(?:[\w-]+:)?link\b[^<>]*>/gi)) {
    const attribute = (name: string) => {
      const [, double, single] =
        new RegExp(`\\s${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)')`, 'i').exec(tag) ?? [];
      return double ?? single ?? '';
    };
    if (isHub(attribute('rel')) && attribute('href') !== '')
      return attribute('href').replaceAll('&amp;', '&');
  }
  return null;
}

const isHub = (rel: string) => rel.toLowerCase().split(/\s+/).includes('hub');

/** `form` null: a GET. */
async function send({ client, signal }: WebsubIo, url: string, form: string | null): Promise<SentAnswer> {
  const asked: HandshakeQuery = {
    method: form === null ? 'GET' : 'POST',
    url,
    headers:
      form === null ? { 'User-Agent': 'Headgate' } : { 'User-Agent': 'Headgate', 'Content-Type': formType },
    body: Buffer.from(form ?? ''),
  };
  try {
    return await client.send(asked, signal);
  } catch (error) {
    throw new SendError(
      `no answer from ${new URL(url).host}: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
}
