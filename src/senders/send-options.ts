/** The options of `headgate send`, as they are on the command line, and how each text is parsed. Refuses with SendError. */
import { createHash } from 'node:crypto';
import { PlainError } from '../kit/plain-error.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { idOf } from './evidence.ts';
import type { Sender } from './sender.ts';
import { hintForSender, senderNamed } from './senders.ts';

/** As given on the command line. */
export interface SendOptions {
  readonly sender: string;
  readonly url?: string | undefined;
  /** The URL that the sender calls, if there is a proxy in front. */
  readonly signedUrl?: string | undefined;
  readonly secret?: string | undefined;
  readonly secretFile?: string | undefined;
  /** The second secret, which some senders' questions need. */
  readonly answerSecret?: string | undefined;
  /** A file, or `-` for standard input. */
  readonly body?: string | undefined;
  /** Sends the same delivery again: the same text gives the same delivery id. */
  readonly id?: string | undefined;
  /** The event's name, if the sender writes it in one place. */
  readonly event?: string | undefined;
  /** `name: value`, each replacing the sender's own header with that name. */
  readonly header?: readonly string[] | undefined;
  readonly count?: string | undefined;
  readonly rate?: string | undefined;
  /** Sends the same delivery this many times, one after the other, each signed anew. */
  readonly repeat?: string | undefined;
  readonly now?: string | undefined;
  /** Signs with a time that is too old. */
  readonly stale?: boolean | undefined;
  /** Sends another body than was signed. */
  readonly tamper?: boolean | undefined;
  /** Asks what the sender asks before it delivers, and judges the answers. */
  readonly handshake?: boolean | undefined;
  /** Prints the requests as curl commands, and sends nothing. */
  readonly print?: boolean | undefined;
  /** Creates a secret for CREATE SECRET and the key that belongs to it, and prints both. */
  readonly makeSecret?: boolean | undefined;
}

/** A mistake that the user has to correct: the message is for the terminal. */
export class SendError extends PlainError {
  override readonly name = 'SendError';
}

/** Each line: options that exclude each other. */
const exclusive: readonly (readonly (keyof SendOptions)[])[] = [
  ['repeat', 'count'],
  ['repeat', 'handshake'],
  ['count', 'handshake'],
  ['count', 'print'],
  ['stale', 'now'],
  ['stale', 'handshake'],
  ['tamper', 'handshake'],
  ['event', 'handshake'],
  ['body', 'handshake'],
];

export function refuseContradictions(options: SendOptions): void {
  const given = (name: keyof SendOptions) => options[name] !== undefined && options[name] !== false;
  const pair = exclusive.find((names) => names.every(given));
  if (pair !== undefined)
    throw new SendError(`${pair.map((name) => `--${name}`).join(' and ')} cannot be used together`);
}

export function urlOf(text: string | undefined, option: string): string {
  if (text === undefined)
    throw new SendError(`${option} is missing: the URL of the table, http://host:4560/webhook/…`);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new SendError(`${option}: "${text}" is not an http(s) URL`);
  return url.href;
}

export function numberOf(text: string, option: string, max: number): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= 1 && value <= max) return value;
  throw new SendError(`${option}: "${text}" is not a whole number from 1 to ${max}`);
}

export function timeOption(text: string): number {
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new SendError(`--now: "${text}" is not a time such as 2026-03-04T05:06:07Z`);
  return ms;
}

/** Any text is allowed: each sender writes its ids in its own form, which is derived from the text. */
export function drawnFrom({ name, delivery }: Sender, { id, body }: SendOptions): string | null {
  if (id === undefined) return null;
  const place = idOf(delivery);
  if (place === null)
    throw new SendError(
      `--id: ${delivery.kind === 'none' ? delivery.why : `nobody has looked whether ${name} sends an id`}`,
    );
  if (body !== undefined && !('header' in place))
    throw new SendError(`--id: ${name} has the delivery's id in the body, which --body replaces`);
  return createHash('sha256').update(id).digest('hex').slice(0, 32);
}

export async function secretOf(
  { secret, secretFile }: Pick<SendOptions, 'secret' | 'secretFile'>,
  io: Pick<CommandIo, 'read' | 'ask'>,
): Promise<string> {
  if (secret !== undefined && secretFile !== undefined)
    throw new SendError('give the secret with either --secret or --secret-file');
  const text = secret ?? (await (secretFile === undefined ? typed(io) : fileText(secretFile, io)));
  if (text === '') throw new SendError('the secret is empty');
  return text;
}

async function fileText(file: string, io: Pick<CommandIo, 'read'>): Promise<string> {
  return (await io.read(file)).toString().replace(/\r?\n$/, '');
}

/** So that a secret need be neither in a file nor in the list of processes. */
async function typed({ ask }: Pick<CommandIo, 'ask'>): Promise<string> {
  if (ask === undefined)
    throw new SendError('give the secret with --secret-file, - for standard input, or with --secret');
  const text = await ask('The secret (it is not shown): ');
  if (text === null) throw new SendError('interrupted');
  return text;
}

/** A sender as a person types its name, in any case; throws SendError. */
export function typedSender(name: string): Sender {
  const sender = senderNamed(name.toLowerCase());
  if (sender !== undefined) return sender;
  const hint = hintForSender(name) ?? 'headgate senders lists them.';
  throw new SendError(
    `unknown sender "${name}": ${hint} For a signature of your own see docs/sql/validate.md, "A signature of your own"`,
  );
}

/** Name → value; for each name the last value. */
export function headersOf(lines: readonly string[]): ReadonlyMap<string, string> {
  return new Map(
    lines.map((line) => {
      const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):[ \t]*(.*?)[ \t]*$/.exec(line) ?? [];
      // oxlint-disable-next-line no-control-regex
      if (name === undefined || value === undefined || /[\0-\x08\n-\x1f\x7f]/.test(value))
        throw new SendError(`--header: "${line}" is not a header such as 'X-Test: yes'`);
      return [name, value];
    }),
  );
}
