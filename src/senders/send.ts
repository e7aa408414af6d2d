/**
 * `headgate send`: a realistic, correctly signed request of a known sender, or many of them, or what it asks before it
 * delivers. Takes the command's options, returns the exit status: 0 if every answer is what the sender expects (2xx;
 * for a deliberately wrong request 4xx), 1 otherwise, 130 if interrupted. Refuses (SendError, one line) options that do
 * not make a request. Touches the network, the files that it is told to read, and the streams that it is given.
 */
import { setMaxListeners } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { isUtf8 } from 'node:buffer';
import { limits } from '../config/limits.ts';
import { eventPlaces } from './events.ts';
import { tampered, withHeaders, withText } from './send-changes.ts';
import { SendClient } from './send-client.ts';
import { askOne, moved, refuseWithoutQuestions, roundsOf, toldOf } from './send-handshake.ts';
import type { HandshakeSender } from './send-handshake.ts';
import {
  SendError,
  typedSender,
  headersOf,
  drawnFrom,
  numberOf,
  refuseContradictions,
  secretOf,
  timeOption,
  urlOf,
} from './send-options.ts';
import type { CommandIo } from '../kit/terminal.ts';
import type { SendOptions } from './send-options.ts';
import { Progress, SendTally } from './send-tally.ts';
import type { Sender, HandshakeQuery } from './sender.ts';
import { signedRequest } from './senders.ts';
import type { SignedRequest } from './senders.ts';

interface Plan {
  readonly count: number;
  readonly ratePerS: number | null;
  /** How often the same delivery is sent. */
  readonly repeat: number;
  /** What is deliberately wrong with the request: the right answer is then a refusal. */
  readonly wrong: 'stale' | 'tampered' | null;
  readonly make: () => SignedRequest;
}

export async function sendCommand(options: SendOptions, io: CommandIo): Promise<number> {
  const sender = typedSender(options.sender);
  if (options.makeSecret === true) {
    io.print(`${JSON.stringify(sender.makeSecret(io.random), null, 2)}\n`);
    return 0;
  }
  refuseContradictions(options);
  const asker = await askerOf(sender, options, io);
  const client = new SendClient();
  try {
    if (options.handshake === true) return await sendQuestions(asker, options, client, io);
    const plan = await planOf(asker, options, io);
    if (options.print === true) return printAll(plan, io);
    return plan.count === 1 ? await sendOne(plan, client, io) : await sendMany(plan, client, io);
  } finally {
    client.close();
  }
}

async function askerOf(sender: Sender, options: SendOptions, io: CommandIo): Promise<HandshakeSender> {
  const url = urlOf(options.url, '--url');
  const signedUrl = options.signedUrl === undefined ? url : urlOf(options.signedUrl, '--signed-url');
  const headers = headersOf(options.header ?? []);
  const signingKey = await secretOf(options, io);
  refuseOtherForm(sender, signingKey);
  return { sender, url, signedUrl, headers, signingKey, answerKey: options.answerSecret ?? '' };
}

async function planOf(asker: HandshakeSender, options: SendOptions, io: CommandIo): Promise<Plan> {
  const { sender, url, signedUrl, headers, signingKey } = asker;
  const count = numberOf(options.count ?? '1', '--count', limits.sendCountMax);
  const repeat = numberOf(options.repeat ?? '1', '--repeat', limits.sendCountMax);
  const rate = options.rate?.replace(/\/s$/, '');
  const ratePerS = rate === undefined ? null : numberOf(rate, '--rate', 1_000_000);
  const nowOf = clockOf(sender, options, io);
  const givenId = drawnFrom(sender, options);
  const own = options.body === undefined ? null : await io.read(options.body);
  const wrong = options.tamper === true ? 'tampered' : options.stale === true ? 'stale' : null;
  if (wrong === 'tampered' && !sender.signsBody)
    throw new SendError(
      `--tamper: ${sender.name} does not sign the whole body, so a changed one may be accepted`,
    );
  const event = eventOf(sender, options);
  const draw = () => {
    const id = givenId ?? io.random(16).toString('hex');
    return { id, body: own ?? Buffer.from(event.body(sender.example({ id, nowMs: nowOf() }))) };
  };
  const one = options.repeat === undefined ? null : draw();
  const make = () => {
    const draft = { method: 'POST', url: signedUrl, nowMs: nowOf(), signingKey, ...(one ?? draw()) };
    const sent = withHeaders(withHeaders(signedRequest(sender, draft), event.headers), headers);
    return moved(wrong === 'tampered' ? tampered(sent) : sent, signedUrl, url);
  };
  try {
    make();
  } catch {
    // The error may quote the key.
    throw new SendError(misfit(sender, own !== null));
  }
  return { count, ratePerS, repeat, wrong, make };
}

/** A stale time is a minute older than the oldest acceptable time. */
function clockOf({ name, toleranceS }: Sender, { now, stale }: SendOptions, io: CommandIo): () => number {
  if (now !== undefined) {
    const at = timeOption(now);
    return () => at;
  }
  if (stale !== true) return io.clock;
  if (toleranceS === null) throw new SendError(`--stale: the check of ${name} does not use a time`);
  return () => io.clock() - (toleranceS + 60) * 1000;
}

interface SentEvent {
  readonly headers: ReadonlyMap<string, string>;
  readonly body: (example: string) => string;
}

function eventOf({ id, name }: Sender, { event, body }: SendOptions): SentEvent {
  const none = { headers: new Map<string, string>(), body: (example: string) => example };
  if (event === undefined) return none;
  const place = eventPlaces[id];
  if (place === undefined) throw new SendError(`--event: ${name} has no single place for the event's name`);
  if ('header' in place) return { ...none, headers: headersOf([`${place.header}: ${event}`]) };
  if (body !== undefined)
    throw new SendError(`--event: ${name} has the event's name in the body, which --body replaces`);
  return { ...none, body: (example) => withText(example, place.field, event) ?? example };
}

/** With a pair of keys the sender signs with the other key, so a wrong one is noticed when it signs. */
function refuseOtherForm(sender: Sender, key: string): void {
  const { name, secret, secretForm } = sender;
  if (secretForm === null || sender.paired || secretForm.test(key)) return;
  throw new SendError(
    `${name} cannot sign with this secret: it is not ${secretForm.sentence}; it must be ${secret.what}`,
  );
}

function misfit(sender: Sender, ownBody: boolean): string {
  const what = sender.paired
    ? 'it must be the private key, see --make-secret'
    : `it must be ${sender.secret.what}`;
  const body =
    ownBody && sender.signatureHeader === null
      ? ', or the body is not JSON, which has to hold the signature'
      : '';
  return `${sender.name} cannot sign with this secret: ${what}${body}`;
}

const accepted = (status: number) => status >= 200 && status < 300;
const interrupted = 130;

function printAll({ make, repeat }: Plan, io: CommandIo): number {
  for (let i = 0; i < repeat; i++) io.print(`${curlOf(make())}\n`);
  return 0;
}

/** One delivery, sent once or as often as it is to be repeated. */
async function sendOne(plan: Plan, client: SendClient, io: CommandIo): Promise<number> {
  let right = true;
  for (let i = 1; i <= plan.repeat; i++) {
    const sent = plan.make();
    const answer = await answerTo(sent.url, () => client.send(sent, io.signal), io);
    if (answer === null) return interrupted;
    const which = plan.repeat === 1 ? '' : `${i}/${plan.repeat} `;
    const line = answer.body === '' || answer.body.endsWith('\n') ? '' : '\n';
    io.print(`${which}HTTP ${answer.status}\n${answer.body}${line}`);
    const good = isRight(plan, answer.status);
    if (plan.wrong !== null)
      io.print(`${good ? 'right' : 'wrong'}: a ${plan.wrong} request must be refused\n`);
    right &&= good;
  }
  return right ? 0 : 1;
}

/** For a deliberately wrong request a refusal is right; 429 and 5xx say nothing about it. */
const isRight = ({ wrong }: Plan, status: number) =>
  wrong === null ? accepted(status) : status >= 400 && status < 500 && status !== 429;

/** null: interrupted. */
async function answerTo<T>(url: string, send: () => Promise<T>, io: CommandIo): Promise<T | null> {
  try {
    return await send();
  } catch (error) {
    if (io.signal.aborted) return null;
    throw new SendError(`no answer from ${new URL(url).host}: ${reason(error)}`);
  }
}

async function sendQuestions(
  asker: HandshakeSender,
  { print, now }: SendOptions,
  client: SendClient,
  io: CommandIo,
): Promise<number> {
  const { sender, answerKey } = asker;
  refuseWithoutQuestions(sender, answerKey);
  const nowMs = now === undefined ? io.clock() : timeOption(now);
  const rounds = roundsOrMisfit(asker, io.random(16).toString('hex'), nowMs);
  let right = true;
  for (const round of rounds) {
    if (print === true) {
      io.print(`${curlOf(round.asked)}\n`);
      continue;
    }
    const told = await answerTo(round.asked.url, () => askOne(round, client, io.elapsed, io.signal), io);
    if (told === null) return interrupted;
    io.print(toldOf(round, sender, told.answer, told.wrong));
    right &&= told.wrong === null;
  }
  return right ? 0 : 1;
}

function roundsOrMisfit(asker: HandshakeSender, id: string, nowMs: number) {
  try {
    return roundsOf(asker, id, nowMs);
  } catch {
    throw new SendError(misfit(asker.sender, false));
  }
}

function reason(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return message === '' || message === undefined ? (code ?? String(error)) : message;
}

/** Several requests at a time, at most `sendInFlightMax`, each begun no earlier than the rate allows. */
async function sendMany(plan: Plan, client: SendClient, io: CommandIo): Promise<number> {
  const { count, ratePerS, make } = plan;
  const tally = new SendTally(count);
  const progress = new Progress(count, io);
  const startedAt = io.elapsed();
  // Each in-flight request listens for the interruption, and so does each pause.
  setMaxListeners(2 * limits.sendInFlightMax, io.signal);
  let next = 0;
  const one = async () => {
    const begun = io.elapsed();
    try {
      const { status } = await client.send(make(), io.signal);
      tally.add(String(status), isRight(plan, status), io.elapsed() - begun);
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
      // Only the signal makes this pause fail.
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

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** A request as a curl command that sends it, for a POSIX shell. */
function curlOf({ method, url, headers, body }: HandshakeQuery): string {
  // A quoted text may contain anything but NUL; curl would take a leading @ for a file.
  const text = isUtf8(body) && !body.includes(0) ? body.toString() : null;
  const byPipe = text === null || text.startsWith('@');
  const lines = [
    method === 'HEAD' ? 'curl --head' : `curl -X ${method}`,
    // curl needs a semicolon after a header without a value.
    ...Object.entries(headers).map(
      ([name, value]) => `-H ${quoted(value === '' ? `${name};` : `${name}: ${value}`)}`,
    ),
    ...(body.length === 0 && method !== 'POST' ? [] : [`--data-binary ${byPipe ? '@-' : quoted(text)}`]),
    quoted(url),
  ];
  const command = lines.join(' \\\n  ');
  return byPipe ? `printf %s ${quoted(body.toString('base64'))} | base64 -d | ${command}` : command;
}
