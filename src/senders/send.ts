/**
 * `headgate send`: a realistic, rightly signed request of a known sender, or many of them. Takes the command's options,
 * gives the exit status: 0 when every answer is 2xx, 1 otherwise, 130 when interrupted. Refuses (SendError, one line)
 * options that make no request. Touches the network, the files it is told to read, and the streams it is given.
 */
import { createHash } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { PlainError } from '../kit/plain-error.ts';
import { limits } from '../tables/limits.ts';
import { SendClient } from './send-client.ts';
import { SendTally, progressBar } from './send-tally.ts';
import { isPaired } from './sender.ts';
import type { Random, Sender } from './sender.ts';
import { nearestSenders, senders, signedRequest } from './senders.ts';
import type { SignedRequest } from './senders.ts';

/** As they come from the command line. */
export interface SendOptions {
  readonly sender: string;
  readonly url?: string | undefined;
  /** What the sender believes to call, where a proxy stands in front. */
  readonly signedUrl?: string | undefined;
  readonly secret?: string | undefined;
  readonly secretFile?: string | undefined;
  /** A file, or `-` for standard input. */
  readonly body?: string | undefined;
  /** Be one delivery that is repeated: the same text makes the same delivery id. */
  readonly id?: string | undefined;
  readonly count?: string | undefined;
  readonly rate?: string | undefined;
  readonly now?: string | undefined;
  /** Make a secret for CREATE SECRET and the key that belongs to it, and print both. */
  readonly makeSecret?: boolean | undefined;
}

export interface SendIo {
  /** Standard output: answers and summaries. */
  readonly print: (text: string) => void;
  /** Standard error: progress. */
  readonly note: (text: string) => void;
  /** Whether `note` draws on a terminal. */
  readonly terminal: boolean;
  /** The bytes of a file; `-` is standard input. */
  readonly read: (path: string) => Promise<Buffer>;
  /** ms since 1970. */
  readonly clock: () => number;
  /** ms, never going back. */
  readonly elapsed: () => number;
  readonly random: Random;
  /** Ends it early. */
  readonly signal: AbortSignal;
}

/** What the user has to put right: the message is for the terminal. */
export class SendError extends PlainError {
  override readonly name = 'SendError';
}

interface Plan {
  readonly count: number;
  readonly ratePerS: number | null;
  readonly make: () => SignedRequest;
}

export async function sendCommand(options: SendOptions, io: SendIo): Promise<number> {
  const sender = knownSender(options.sender);
  if (options.makeSecret === true) {
    io.print(`${JSON.stringify(sender.makeSecret(io.random), null, 2)}\n`);
    return 0;
  }
  const plan = await planOf(sender, options, io);
  const client = new SendClient();
  try {
    return plan.count === 1 ? await sendOnce(plan, client, io) : await sendMany(plan, client, io);
  } finally {
    client.close();
  }
}

function knownSender(name: string): Sender {
  const sender = senders.get(name);
  if (sender !== undefined) return sender;
  const near = nearestSenders(name);
  const hint =
    near.length > 0 ? `perhaps ${near.join(', ')}?` : `known are ${[...senders.keys()].join(', ')}`;
  throw new SendError(`unknown sender "${name}": ${hint}`);
}

async function planOf(sender: Sender, options: SendOptions, io: SendIo): Promise<Plan> {
  const url = urlOf(options.url, '--url');
  const signedUrl = options.signedUrl === undefined ? url : urlOf(options.signedUrl, '--signed-url');
  const count = numberOf(options.count ?? '1', '--count', limits.sendCountMax);
  const rate = options.rate?.replace(/\/s$/, '');
  const ratePerS = rate === undefined ? null : numberOf(rate, '--rate', 1_000_000);
  const nowMs = options.now === undefined ? null : timeOf(options.now);
  const givenId = idOf(sender, options);
  const signingKey = await secretOf(options, io);
  refuseOtherForm(sender, signingKey);
  const body = options.body === undefined ? null : await io.read(options.body);
  const make = () => {
    const at = nowMs ?? io.clock();
    const id = givenId ?? io.random(16).toString('hex');
    const draft = { method: 'POST', url: signedUrl, nowMs: at, signingKey, id };
    const bytes = body ?? Buffer.from(sender.example({ id, nowMs: at }));
    return moved(signedRequest(sender, { ...draft, body: bytes }), signedUrl, url);
  };
  try {
    make();
  } catch {
    // What was thrown may quote the key.
    throw new SendError(misfit(sender, body !== null));
  }
  return { count, ratePerS, make };
}

/** Of a pair of keys the sender signs with the other one, which shows when it signs. */
function refuseOtherForm(sender: Sender, key: string): void {
  const { name, secret, secretForm } = sender;
  if (secretForm === null || isPaired(sender) || secretForm.test(key)) return;
  throw new SendError(
    `${name} cannot sign with this secret: it is not ${secretForm.sentence}; it is ${secret.what}`,
  );
}

/** What was signed for one URL goes to another; what the sender added to the query goes with it. */
function moved(sent: SignedRequest, signedUrl: string, url: string): SignedRequest {
  if (sent.url === signedUrl) return { ...sent, url };
  const target = new URL(url);
  for (const [name, value] of new URL(sent.url).searchParams) target.searchParams.set(name, value);
  return { ...sent, url: target.href };
}

function misfit(sender: Sender, ownBody: boolean): string {
  const what = isPaired(sender) ? 'it is the private key, see --make-secret' : `it is ${sender.secret.what}`;
  const body =
    ownBody && sender.signatureHeader === null
      ? ', or the body is no JSON, which the signature goes into'
      : '';
  return `${sender.name} cannot sign with this secret: ${what}${body}`;
}

function urlOf(text: string | undefined, option: string): string {
  if (text === undefined)
    throw new SendError(`${option} is missing: the URL of the table, http://host:4560/webhook/…`);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new SendError(`${option}: "${text}" is no http(s) URL`);
  return url.href;
}

function numberOf(text: string, option: string, max: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= max) return value;
  throw new SendError(`${option}: "${text}" is no whole number from 1 to ${max}`);
}

function timeOf(text: string): number {
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new SendError(`--now: "${text}" is no time, e.g. 2026-03-04T05:06:07Z`);
  return ms;
}

/** Any text will do: each sender writes its ids in a form of its own, which is made of it. */
function idOf({ name, deliveryId }: Sender, { id, body }: SendOptions): string | null {
  if (id === undefined) return null;
  if (deliveryId === null)
    throw new SendError(`--id: ${name} sends no id that a repeated delivery has again`);
  if (body !== undefined && !('header' in deliveryId))
    throw new SendError(`--id: ${name} has the delivery's id in the body, which --body gives`);
  return createHash('sha256').update(id).digest('hex').slice(0, 32);
}

async function secretOf({ secret, secretFile }: SendOptions, io: SendIo): Promise<string> {
  if ((secret === undefined) === (secretFile === undefined)) {
    throw new SendError('give the secret with --secret or --secret-file (one of them)');
  }
  const text = secret ?? (await io.read(secretFile ?? '')).toString().replace(/\r?\n$/, '');
  if (text === '') throw new SendError('the secret is empty');
  return text;
}

const accepted = (status: number) => status >= 200 && status < 300;
const interrupted = 130;

async function sendOnce(plan: Plan, client: SendClient, io: SendIo): Promise<number> {
  const sent = plan.make();
  try {
    const answer = await client.post(sent, io.signal);
    io.print(`HTTP ${answer.status}\n${answer.body}${/(?:^|\n)$/.test(answer.body) ? '' : '\n'}`);
    return accepted(answer.status) ? 0 : 1;
  } catch (error) {
    if (io.signal.aborted) return interrupted;
    throw new SendError(`no answer from ${new URL(sent.url).host}: ${reason(error)}`);
  }
}

function reason(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return message === '' || message === undefined ? (code ?? String(error)) : message;
}

/** Several requests at a time, at most `sendInFlightMax`, each begun no earlier than the rate allows. */
async function sendMany(plan: Plan, client: SendClient, io: SendIo): Promise<number> {
  const { count, ratePerS, make } = plan;
  const tally = new SendTally(count);
  const progress = new Progress(count, io);
  const startedAt = io.elapsed();
  // Each request under way listens for the interruption, and each pause.
  setMaxListeners(2 * limits.sendInFlightMax, io.signal);
  let next = 0;
  const one = async () => {
    const begun = io.elapsed();
    try {
      const { status } = await client.post(make(), io.signal);
      tally.add(String(status), accepted(status), io.elapsed() - begun);
    } catch (error) {
      if (!io.signal.aborted) tally.add(reason(error), false, io.elapsed() - begun);
    }
    progress.show(tally.done);
  };
  const worker = async () => {
    while (next < count && !io.signal.aborted) {
      const dueAt = ratePerS === null ? 0 : startedAt + (next * 1000) / ratePerS;
      next++;
      const waitMs = dueAt - io.elapsed();
      // The only way this pause fails is the signal.
      if (waitMs > 0) await pause(waitMs, undefined, { signal: io.signal }).catch(() => undefined);
      if (!io.signal.aborted) await one();
    }
  };
  await Promise.all(Array.from({ length: Math.min(count, limits.sendInFlightMax) }, worker));
  progress.end();
  io.print(tally.summary(io.elapsed() - startedAt));
  if (io.signal.aborted) return interrupted;
  return tally.allAccepted ? 0 : 1;
}

/** A bar on a terminal, drawn at most ten times a second; elsewhere a line for each tenth of the work. */
class Progress {
  readonly #count: number;
  readonly #io: SendIo;
  #shownAt = Number.NEGATIVE_INFINITY;
  #tenths = 0;

  constructor(count: number, io: SendIo) {
    this.#count = count;
    this.#io = io;
  }

  show(done: number): void {
    const { terminal, elapsed, note } = this.#io;
    if (terminal) {
      const now = elapsed();
      if (done < this.#count && now - this.#shownAt < 100) return;
      this.#shownAt = now;
      note(`\r${progressBar(done, this.#count)}`);
      return;
    }
    const tenths = Math.floor((10 * done) / this.#count);
    if (tenths === this.#tenths) return;
    this.#tenths = tenths;
    note(`${done}/${this.#count}\n`);
  }

  end(): void {
    if (this.#io.terminal) this.#io.note('\n');
  }
}
