/**
 * Sends a kept request again, exactly as it was kept: nothing is added but the content type of a body that is made from the table and, if a
 * sender is given, a new signature: in tables with its check, and in those that are named and have no sender's. Says beforehand which parts a
 * table does not keep. Takes requests and their targets, returns answers. Never follows a redirect. Rejects with SendError if the secret cannot
 * sign, with UnsignableError if this request cannot be signed, or with another error if no answer arrives.
 */
import { quoteIdentifier, quoteLiteral } from '../kit/sql-text.ts';
import { eventPlaces } from '../senders/events.ts';
import { SendClient } from '../senders/send-client.ts';
import type { SentAnswer } from '../senders/send-client.ts';
import { SendError, secretOf, typedSender } from '../senders/send-options.ts';
import type { HandshakeQuery, Sender } from '../senders/sender.ts';
import { plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { signAgain, signedIds, UnsignableError } from '../senders/sign-again.ts';
import type { KeptParts, StoredRequest, StoredTable } from './stored-requests.ts';

export interface ForwardOptions {
  /** The sender whose signature the requests get. */
  readonly sender?: string;
  readonly secret?: string;
  readonly secretFile?: string;
}

interface Signer {
  readonly sender: Sender;
  readonly key: string;
}

export class Forwarder {
  readonly #client = new SendClient();
  readonly #signer: Signer | null;
  readonly #isNamed: boolean;
  readonly #io: CommandIo;
  /** Tables of which it was said that some rows are older than their INCLUDE. */
  readonly #told = new Set<string>();

  private constructor(signer: Signer | null, isNamed: boolean, io: CommandIo) {
    this.#signer = signer;
    this.#isNamed = isNamed;
    this.#io = io;
  }

  /** `isNamed`: the command names its tables. */
  static async open(options: ForwardOptions, isNamed: boolean, io: CommandIo): Promise<Forwarder> {
    const { sender: name, secret, secretFile } = options;
    if (name === undefined) {
      if (secret !== undefined || secretFile !== undefined)
        throw new SendError('--secret needs --sender, which names the sender to sign for');
      return new Forwarder(null, isNamed, io);
    }
    const sender = typedSender(name);
    return new Forwarder({ sender, key: await secretOf({ secret, secretFile }, io) }, isNamed, io);
  }

  /** Throws SendError if all of the tables that the command names are checked as other senders. */
  refuseOthers(tables: readonly StoredTable[]): void {
    if (this.#signer === null || !this.#isNamed || tables.some((table) => this.#signerOf(table) !== null))
      return;
    throw new SendError(`--sender ${this.#signer.sender.id} ${tables.map(otherText).join('; it ')}`);
  }

  /** Says on standard error whose signature the requests of a table get, if it is not its sender's, and which of their parts it does not keep. */
  announce(table: StoredTable): void {
    const signer = this.#signerOf(table);
    const text = `${this.#signingText(table)}${missingText(table, signer?.sender ?? null)}`;
    if (text !== '') this.#io.note(text);
  }

  /** Empty: there is nothing to say. */
  #signingText(table: StoredTable): string {
    if (this.#signer === null || table.keeps.senders.has(this.#signer.sender.id)) return '';
    const option = `--sender ${this.#signer.sender.id}`;
    if (table.keeps.sender !== null) return `${option} ${otherText(table)}\n`;
    const from = plain(table.from);
    return this.#isNamed
      ? `${option} signs the requests of ${from}, which has no sender's check\n`
      : `${option} does not apply to ${from}, which has no sender's check: name the table to sign its requests\n`;
  }

  /** null: requests of this table are sent without a new signature. */
  #signerOf({ keeps }: StoredTable): Signer | null {
    const signer = this.#signer;
    if (signer === null) return null;
    const applies = keeps.sender === null ? this.#isNamed : keeps.senders.has(signer.sender.id);
    return applies ? signer : null;
  }

  send(stored: StoredRequest, to: string, table: StoredTable): Promise<SentAnswer> {
    this.#announceOlder(stored, table);
    return this.#client.send(this.#asked(stored, to, table), this.#io.signal);
  }

  close(): void {
    this.#client.close();
  }

  #asked(
    { method, query, headers: kept, body, hasBody, hasHeaders }: StoredRequest,
    to: string,
    table: StoredTable,
  ): HandshakeQuery {
    const url = withQuery(to, query);
    // A body that is made from the table is of the table's form, whatever came.
    const type = table.contentType;
    const headers =
      hasBody && (hasHeaders || kept['content-type'] !== undefined)
        ? kept
        : { ...kept, 'content-type': type };
    const asked =
      method === 'GET'
        ? { method, url, body: Buffer.alloc(0), headers: kept }
        : { method, url, body, headers };
    const signer = this.#signerOf(table);
    if (signer === null) return asked;
    const { sender, key: signingKey } = signer;
    try {
      return signAgain(sender, asked, { signingKey, nowMs: this.#io.clock(), random: this.#io.random });
    } catch (error) {
      if (error instanceof UnsignableError) throw error;
      // The error may quote the key.
      throw new SendError(`${sender.name} cannot sign with this secret: it must be ${sender.secret.what}`);
    }
  }

  #announceOlder({ hasBody, hasHeaders }: StoredRequest, { keeps, from }: StoredTable): void {
    const older = [
      ...(keeps.headers && !hasHeaders ? ['headers'] : []),
      ...(keeps.body && !hasBody ? ['raw body'] : []),
    ];
    if (older.length === 0 || this.#told.has(from)) return;
    this.#told.add(from);
    this.#io.note(
      `${plain(from)}: some rows are older than the columns that keep ${older.join(' and ')}; their requests are sent without\n`,
    );
  }
}

const otherText = ({ from, keeps }: StoredTable) =>
  `does not apply to ${plain(from)}, which is checked as ${keeps.sender ?? ''}`;

/** Empty: everything is kept. */
function missingText({ from, keeps, contentType }: StoredTable, signer: Sender | null): string {
  const place = signer === null ? undefined : eventPlaces[signer.id];
  const event = place !== undefined && 'header' in place ? place.header : null;
  const ids = signer === null ? [...keeps.read].filter((name) => /(?:^|-)id$/.test(name)) : signedIds(signer);
  const isKept = (name: string) =>
    keeps.named.has(name.toLowerCase()) || (keeps.headers && !keeps.read.has(name.toLowerCase()));
  const includeHeader = (name: string) =>
    `INCLUDE HEADER ${quoteLiteral(name)} AS ${freeName(keeps, name.replaceAll('-', '_'))}`;
  const lines: string[] = [];
  const clauses: string[] = [];
  if (!keeps.headers) {
    const named = [...keeps.named].join(', ');
    const others = named === '' ? 'the headers' : `headers other than ${named}`;
    const most = event === null || isKept(event) ? '' : `, among them the event's name (${event})`;
    lines.push(`${others}${most}: requests are sent without them`);
    clauses.push(`INCLUDE HEADERS AS ${freeName(keeps, 'headers')}`);
  }
  if (keeps.storesOthers && !keeps.method) {
    lines.push('the method: all of its requests are sent as POST');
    clauses.push(`INCLUDE METHOD AS ${freeName(keeps, 'method')}`);
  }
  if (keeps.storesGet && !keeps.query) {
    lines.push('the query string: requests are sent without it, and a GET has no other content');
    clauses.push(`INCLUDE QUERY AS ${freeName(keeps, 'query')}`);
  }
  if (keeps.isBatched) lines.push('the batch: each row is sent as a request of its own');
  if (!keeps.body) {
    lines.push(`the raw body: it is written from the table's columns, as ${contentType}`);
    clauses.push(`INCLUDE BODY AS ${freeName(keeps, 'raw')}`);
  }
  for (const id of ids.filter((name) => !isKept(name) && !keeps.named.has(name))) {
    lines.push(
      signer === null
        ? `${id}, which VALIDATE reads`
        : `${id}, which ${signer.name} signs: requests without it cannot be signed, and are not sent`,
    );
    clauses.push(includeHeader(id));
  }
  const signature = [...keeps.read].filter((name) => !keeps.named.has(name) && !ids.includes(name));
  if (signer === null && signature.length > 0) {
    const again = keeps.sender === null ? '' : `: --sender ${keeps.sender} signs again`;
    lines.push(`${signature.join(', ')}, which VALIDATE reads${again}`);
    if (keeps.sender === null && keeps.isSigned) clauses.push(...signature.map(includeHeader));
  }
  if (lines.length === 0) return '';
  const alter = clauses.length === 0 ? '' : `  From now on: ALTER TABLE ${from} ${clauses.join(' ')};\n`;
  return plainLines(`${from} does not keep\n${lines.map((line) => `  - ${line}\n`).join('')}${alter}`);
}

function freeName({ columns }: KeptParts, wanted: string): string {
  let name = wanted;
  for (let n = 2; columns.has(name); n++) name = `${wanted}_${n}`;
  return quoteIdentifier(name);
}

const plainLines = (text: string) => text.split('\n').map(plain).join('\n');

function withQuery(to: string, query: string | null): string {
  if (query === null || query === '' || /[\s#]/.test(query)) return to;
  return `${to}${to.includes('?') ? '&' : '?'}${query}`;
}

export function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return message === '' || message === undefined ? (code ?? String(error)) : message;
}
