/** What `headgate send` is told, as it stands on the command line, and how each text is read. Refuses with SendError. */
import { createHash } from 'node:crypto';
import { PlainError } from '../kit/plain-error.ts';
import type { CommandIo } from '../kit/terminal.ts';
import type { Sender } from './sender.ts';

/** As they come from the command line. */
export interface SendOptions {
  readonly sender: string;
  readonly url?: string | undefined;
  /** What the sender believes to call, where a proxy stands in front. */
  readonly signedUrl?: string | undefined;
  readonly secret?: string | undefined;
  readonly secretFile?: string | undefined;
  /** The second secret: what the answers to some senders' questions need. */
  readonly answerSecret?: string | undefined;
  /** A file, or `-` for standard input. */
  readonly body?: string | undefined;
  /** Be one delivery that is repeated: the same text makes the same delivery id. */
  readonly id?: string | undefined;
  /** The event's name, where the sender writes it. */
  readonly event?: string | undefined;
  /** `name: value`, each instead of the sender's own header of that name. */
  readonly header?: readonly string[] | undefined;
  readonly count?: string | undefined;
  readonly rate?: string | undefined;
  /** The same delivery so many times, one after the other, each signed anew. */
  readonly repeat?: string | undefined;
  readonly now?: string | undefined;
  /** Sign with a time that is too old. */
  readonly stale?: boolean | undefined;
  /** Send another body than was signed. */
  readonly tamper?: boolean | undefined;
  /** Ask what the sender asks before it delivers, and judge the answers. */
  readonly handshake?: boolean | undefined;
  /** Print the requests as curl, and send nothing. */
  readonly print?: boolean | undefined;
  /** Make a secret for CREATE SECRET and the key that belongs to it, and print both. */
  readonly makeSecret?: boolean | undefined;
}

/** What the user has to put right: the message is for the terminal. */
export class SendError extends PlainError {
  override readonly name = 'SendError';
}

/** Each line: options of which only one may be there. */
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

export function timeOf(text: string): number {
  const ms = Date.parse(text);
  if (Number.isNaN(ms)) throw new SendError(`--now: "${text}" is not a time such as 2026-03-04T05:06:07Z`);
  return ms;
}

/** Any text will do: each sender writes its ids in a form of its own, which is made of it. */
export function idOf({ name, deliveryId }: Sender, { id, body }: SendOptions): string | null {
  if (id === undefined) return null;
  if (deliveryId === null)
    throw new SendError(`--id: ${name} sends no id that stays the same when a delivery is repeated`);
  if (body !== undefined && !('header' in deliveryId))
    throw new SendError(`--id: ${name} has the delivery's id in the body, which --body replaces`);
  return createHash('sha256').update(id).digest('hex').slice(0, 32);
}

export async function secretOf(
  { secret, secretFile }: Pick<SendOptions, 'secret' | 'secretFile'>,
  io: Pick<CommandIo, 'read'>,
): Promise<string> {
  if ((secret === undefined) === (secretFile === undefined)) {
    throw new SendError('give the secret with either --secret or --secret-file');
  }
  const text = secret ?? (await io.read(secretFile ?? '')).toString().replace(/\r?\n$/, '');
  if (text === '') throw new SendError('the secret is empty');
  return text;
}

/** Name → value, of each name the last. */
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
