/**
 * The upper layer of the SQL door: one client's session as a state machine over bytes, without a socket.
 *
 * Takes the chunks of both peers and the rewriter; returns the bytes for the other peer. May replace a Query or a
 * Parse, a CommandComplete's tag and an error; everything else passes unchanged. Refuses with `ProtocolViolation`:
 * messages that are too large before authentication, impossible lengths.
 *
 * A session is *opening* until the engine's first ReadyForQuery: passwords pass, and whatever a client has pipelined
 * after them waits. From then on it is *ready*. `Answers` keeps track of what the engine is answering at any time.
 */
import { timingSafeEqual } from 'node:crypto';
import type { RewriteSql } from '../ddl/rewrite.ts';
import type { Rewrite, SessionQueries, SqlSession } from '../types/sql.ts';
import { deferred } from '../kit/promises.ts';
import type { Limits } from '../config/limits.ts';
import { type SqlError, SqlFailure } from '../errors/refusals.ts';
import { plain, ReplyRewriter } from './answers.ts';
import { withoutChannelBinding } from './authenticate.ts';
import {
  brokenFollowing,
  brokenSql,
  type RewrittenText,
  refusalFields,
  syntaxError,
  translateFields,
} from './errors.ts';
import { Framer, ProtocolViolation, unread, type FrameRewrite } from './framing.ts';
import * as wire from './messages.ts';
import { HeadgateQueries } from './headgate-queries.ts';

const { fromClient, fromEngine } = wire;
const nothing = Buffer.alloc(0);
const inPipeline: SqlError = {
  sqlstate: '0A000',
  message: 'this statement cannot follow others in a pipeline',
  hint: 'Send it after a Sync, when everything before it has been answered.',
};
/** How much of Bind, Describe, Execute and Close is read to find the names at their beginning. */
const namesBytes = 1024;

export interface SqlPortSessionOptions {
  readonly database: string;
  readonly user: string;
  /** For a client that may follow the server's log: what it may not request, unless it is a superuser. */
  readonly followerRefused?: ((sql: string) => SqlError | null) | null;
  readonly rewrite: RewriteSql;
  readonly limits: Limits;
  readonly toEngine: (bytes: Buffer) => void;
  /** Sends what was given to `toEngine`, while a message is held. */
  readonly flush?: () => void;
  readonly toClient: (bytes: Buffer) => void;
  /** Called with the number of statements of each text that was rewritten. */
  readonly rewritten: (statements: number) => void;
  /** Called for a bug: the rewriter or its preparation threw something other than SqlFailure. */
  readonly failed: (error: unknown) => void;
}

export class SqlPortSession {
  readonly #options: SqlPortSessionOptions;
  readonly #client: Framer;
  readonly #engine: Framer;
  readonly #answers: ReplyRewriter;
  readonly #ready = deferred<void>();
  #opening = true;
  #authenticated = false;
  #terminated = false;
  #fatal = false;
  #streams = false;
  #superuser = false;
  /** Of statements that show something of the catalog, e.g. EXPLAIN VALIDATE: while a message of the client waits for them. */
  #own: HeadgateQueries | null = null;
  /** The number of the engine's process and its key, as a CancelRequest has them. */
  #key: Buffer | null = null;
  #clientEncoding = 'UTF8';
  #standardConformingStrings = true;

  constructor(options: SqlPortSessionOptions) {
    this.#options = options;
    this.#answers = new ReplyRewriter(options.limits.sqlRewrittenStatementsMax);
    this.#client = new Framer(
      {
        begin: (type, length) => this.#clientBegins(type, length),
        message: (type, body) => this.#clientMessage(type, body),
      },
      options.toEngine,
    );
    this.#engine = new Framer(
      {
        begin: (type, length) => this.#engineBegins(type, length),
        message: (type, body) => this.#engineMessage(type, body),
      },
      options.toClient,
    );
  }

  /** A promise: a message is held, and nothing more may be pushed until it settles. */
  fromClient(chunk: Buffer): Promise<void> | null {
    return this.#client.push(chunk);
  }

  fromEngine(chunk: Buffer): void {
    // No answer of the engine is ever held.
    void this.#engine.push(chunk);
  }

  /** The engine has said AuthenticationOk. */
  get authenticated(): boolean {
    return this.#authenticated;
  }
  /** The client has sent Terminate. */
  get terminated(): boolean {
    return this.#terminated;
  }
  /** The engine has said why the connection ends. */
  get fatal(): boolean {
    return this.#fatal;
  }
  /** Between two statements, outside a transaction. */
  get idle(): boolean {
    return !this.#opening && this.#answers.idle && this.#client.atBoundary && this.#engine.atBoundary;
  }
  /** The engine sends changes to a subscriber until one of them leaves, and a subscriber later resumes where it was. */
  get streams(): boolean {
    return this.#streams;
  }
  /** The door can send the client a message of its own. */
  get clientCanBeTold(): boolean {
    return this.#engine.emittedWhole;
  }
  /** The door can send the engine a message of its own. */
  get engineCanBeTold(): boolean {
    return this.#client.emittedWhole;
  }
  /** Whether this packet cancels what runs in this session. */
  isCancelledBy(packet: Buffer): boolean {
    const given = packet.subarray(8);
    return this.#key !== null && given.length === this.#key.length && timingSafeEqual(given, this.#key);
  }
  cancel(): void {
    this.#own?.cancel();
  }
  /** The client sends nothing more, while a message of its is held: as with PostgreSQL's client_connection_check_interval, it has left. */
  clientLeft(): void {
    this.#own?.clientLeft();
  }
  /** One of the two sides has left. */
  leave(): void {
    this.#own?.leave();
  }
  /** Messages that the engine has not answered. */
  get outstanding(): number {
    return this.#answers.outstanding.length;
  }

  #clientBegins(type: number, length: number): number {
    if (this.#opening) {
      const { sqlAuthMessageBytesMax, sqlStatementBytesMax } = this.#options.limits;
      if (length > (this.#authenticated ? sqlStatementBytesMax : sqlAuthMessageBytesMax)) {
        throw new ProtocolViolation('the message is too large at this point of the connection');
      }
      return type === fromClient.password || type === fromClient.terminate ? this.#passes(type) : length;
    }
    if (type === fromClient.query || type === fromClient.parse) {
      if (length <= this.#options.limits.sqlStatementBytesMax) return length;
      if (this.#options.followerRefused)
        throw new ProtocolViolation('the statement is too large for a follower');
      return this.#answers.namesMatter ? Math.min(length, namesBytes) : this.#passes(type);
    }
    const named =
      type === fromClient.bind ||
      type === fromClient.describe ||
      type === fromClient.execute ||
      type === fromClient.close;
    return named && this.#answers.namesMatter ? Math.min(length, namesBytes) : this.#passes(type);
  }

  /** For a message of which only the type matters. */
  #passes(type: number): number {
    const answers = this.#answers;
    if (type === fromClient.query) answers.sent(plain.query);
    else if (type === fromClient.parse) answers.sent(plain.parse);
    else if (type === fromClient.bind) answers.sent(plain.bind);
    else if (type === fromClient.describe) answers.sent(plain.describe);
    else if (type === fromClient.execute) answers.sent(plain.execute);
    else if (type === fromClient.close) answers.sent(plain.close);
    else if (type === fromClient.sync) answers.sent(plain.sync);
    else if (type === fromClient.functionCall) answers.sent(plain.call);
    else if (type === fromClient.copyDone || type === fromClient.copyFail) answers.sent(plain.copyEnd);
    else if (type === fromClient.terminate) this.#terminated = true;
    return unread;
  }

  #clientMessage(type: number, body: Buffer): FrameRewrite | Promise<FrameRewrite> {
    if (this.#opening) return this.#ready.promise.then(() => this.#clientMessage(type, body));
    switch (type) {
      case fromClient.query:
        return this.#query(body);
      case fromClient.parse:
        return this.#parse(body);
      case fromClient.bind: {
        const names = wire.readStrings(body, 2);
        this.#answers.sent({ kind: 'bind', portal: names?.[0] ?? null, statement: names?.[1] ?? null });
        return null;
      }
      case fromClient.execute:
        this.#answers.sent({ kind: 'execute', portal: wire.readStrings(body, 1)?.[0] ?? null });
        return null;
      case fromClient.describe:
      case fromClient.close: {
        const name = wire.readStrings(body.subarray(1), 1)?.[0] ?? null;
        const of = body[0] === 0x53 ? 'S' : 'P';
        this.#answers.sent({ kind: type === fromClient.close ? 'close' : 'describe', of, name });
        return null;
      }
      default:
        this.#passes(type);
        return null;
    }
  }

  #query(body: Buffer): FrameRewrite | Promise<FrameRewrite> {
    const sql = wire.readQuery(body);
    const error = sql === null || this.#superuser ? null : this.#options.followerRefused?.(sql);
    if (sql !== null && error) {
      this.#answers.sent({ kind: 'query', ours: { original: sql, rewrite: { kind: 'error', error } } });
      return wire.writeQuery(brokenFollowing);
    }
    const rewrite = sql === null ? null : this.#ask(sql);
    if (sql === null || rewrite === null) {
      this.#answers.sent(plain.query);
      return null;
    }
    return this.#send(sql, rewrite, (ours, text) => {
      this.#answers.sent({ kind: 'query', ours });
      return wire.writeQuery(text);
    });
  }

  #parse(body: Buffer): FrameRewrite | Promise<FrameRewrite> {
    const parse = wire.readParse(body);
    const rewrite = parse === null ? null : this.#ask(parse.sql);
    if (parse === null || rewrite === null) {
      const name = wire.readStrings(body, 1)?.[0] ?? null;
      this.#answers.sent(this.#answers.namesMatter ? { kind: 'parse', name, ours: null } : plain.parse);
      return null;
    }
    return this.#send(parse.sql, rewrite, (ours, text) => {
      this.#answers.sent({ kind: 'parse', name: parse.name, ours });
      return wire.writeParse({ ...parse, sql: text });
    });
  }

  #ask(sql: string): Rewrite | null {
    if (this.#answers.skipping) return null;
    const session: SqlSession = {
      database: this.#options.database,
      user: this.#options.user,
      standardConformingStrings: this.#standardConformingStrings,
      clientEncoding: this.#clientEncoding,
      queries: () => this.#queries(),
    };
    try {
      return this.#options.rewrite(sql, session);
    } catch (error) {
      return { kind: 'error', error: this.#errorOf(error) };
    }
  }

  #queries(): SessionQueries {
    const { quiet, outsideTransaction } = this.#answers;
    const refused = quiet ? null : new SqlFailure(inPipeline);
    this.#own = new HeadgateQueries(!outsideTransaction, refused, (query) => {
      this.#options.toEngine(query);
      this.#options.flush?.();
    });
    return this.#own;
  }

  #send(
    original: string,
    rewrite: Rewrite,
    write: (ours: RewrittenText, text: string) => Buffer,
  ): Buffer | Promise<Buffer> {
    if (rewrite.kind === 'error') return write({ original, rewrite }, brokenSql);
    if (rewrite.kind === 'deferred') {
      return rewrite.prepare().then(
        (prepared) => {
          this.#own = null;
          return this.#send(original, prepared, write);
        },
        (error: unknown) => {
          this.#own = null;
          return this.#send(original, { kind: 'error', error: this.#errorOf(error) }, write);
        },
      );
    }
    this.#options.rewritten(Math.max(1, rewrite.tags.filter((tag) => tag !== null).length));
    if (rewrite.before === null) return write({ original, rewrite }, rewrite.sql);
    return rewrite.before().then(
      () => write({ original, rewrite }, rewrite.sql),
      (error: unknown) =>
        write({ original, rewrite: { kind: 'error', error: this.#errorOf(error) } }, brokenSql),
    );
  }

  #errorOf(error: unknown): SqlError {
    if (error instanceof SqlFailure) return error.error;
    this.#options.failed(error);
    return {
      sqlstate: 'XX000',
      message: 'internal error',
      hint: 'This is a bug in Headgate; the log says more.',
    };
  }

  #engineBegins(type: number, length: number): number {
    const answers = this.#answers;
    if (this.#own?.takes(type) === true) return length;
    switch (type) {
      case fromEngine.backendKeyData:
        return Math.min(length, namesBytes);
      case fromEngine.parseComplete:
        answers.parseComplete();
        return unread;
      case fromEngine.bindComplete:
        answers.bindComplete();
        return unread;
      case fromEngine.closeComplete:
        answers.closeComplete();
        return unread;
      case fromEngine.rowDescription:
      case fromEngine.noData:
        answers.described();
        return unread;
      case fromEngine.emptyQuery:
      case fromEngine.portalSuspended:
        answers.executeEnds();
        return unread;
      case fromEngine.copyIn:
        answers.copyInBegins();
        return unread;
      case fromEngine.copyBoth:
        this.#streams = true;
        answers.copyBegins();
        return unread;
      case fromEngine.copyOut:
        answers.copyBegins();
        return unread;
      case fromEngine.commandComplete:
        if (answers.namesMatter) return length;
        answers.commandCompletes();
        return unread;
      case fromEngine.readyForQuery:
        return length;
      case fromEngine.error:
        if (length <= this.#options.limits.sqlNoticeBytesMax) return length;
        answers.failed();
        return unread;
      case fromEngine.notice:
        return length <= this.#options.limits.sqlNoticeBytesMax && answers.current() !== null
          ? length
          : unread;
      case fromEngine.parameterStatus:
        return length <= this.#options.limits.sqlNoticeBytesMax ? length : unread;
      case fromEngine.authentication:
        return this.#authenticated ? unread : Math.min(length, namesBytes);
      default:
        return unread;
    }
  }

  #engineMessage(type: number, body: Buffer): FrameRewrite {
    if (this.#own?.takes(type) === true && !isFatal(type, body)) {
      this.#own.take(type, body);
      return nothing;
    }
    switch (type) {
      case fromEngine.backendKeyData:
        this.#key = Buffer.from(body);
        return null;
      case fromEngine.commandComplete:
        return this.#commandComplete(body);
      case fromEngine.error:
        return this.#error(body);
      case fromEngine.notice:
        return this.#notice(body);
      case fromEngine.readyForQuery:
        this.#answers.readyForQuery(body[0] === 0x49);
        this.#streams = false;
        if (this.#opening) {
          this.#opening = false;
          this.#ready.resolve();
        }
        return null;
      case fromEngine.parameterStatus:
        this.#parameterStatus(body);
        return null;
      case fromEngine.authentication:
        this.#authenticated = body.length === 4 && body.readInt32BE(0) === 0;
        // A client's channel ends at this door: the engine's channel is a different one, to which it cannot be bound.
        return withoutChannelBinding(body);
      default:
        return null;
    }
  }

  #commandComplete(body: Buffer): FrameRewrite {
    const own = wire.readStrings(body, 1)?.[0];
    if (own === 'DISCARD ALL' || own === 'DEALLOCATE ALL') this.#answers.statementsDropped();
    const tag = this.#answers.commandCompletes();
    return tag === null ? null : wire.writeCommandComplete(tag);
  }

  #error(body: Buffer): FrameRewrite {
    const fields = wire.readErrorFields(body);
    if (isFatalError(fields)) {
      this.#fatal = true;
      return null;
    }
    const ours = this.#answers.current();
    this.#answers.failed();
    if (ours === null) return null;
    const { original, rewrite } = ours;
    if (rewrite.kind === 'rewritten') {
      return wire.writeErrorFields('E', translateFields(fields, original, rewrite, this.#clientEncoding));
    }
    // Anything but the deliberate syntax error is the engine's own, e.g. a cancelled statement.
    if (fields.get('C') !== syntaxError) return null;
    return wire.writeErrorFields('E', refusalFields(ours, rewrite.error, this.#clientEncoding));
  }

  #notice(body: Buffer): FrameRewrite {
    const ours = this.#answers.current();
    if (ours?.rewrite.kind !== 'rewritten') return null;
    const fields = translateFields(
      wire.readErrorFields(body),
      ours.original,
      ours.rewrite,
      this.#clientEncoding,
    );
    return wire.writeErrorFields('N', fields);
  }

  #parameterStatus(body: Buffer): void {
    const [name, value] = wire.readStrings(body, 2) ?? [];
    if (name === 'client_encoding' && value !== undefined) this.#clientEncoding = value;
    if (name === 'is_superuser') this.#superuser = value === 'on';
    if (name === 'standard_conforming_strings') this.#standardConformingStrings = value !== 'off';
  }
}

function isFatalError(fields: wire.ErrorFields): boolean {
  const severity = fields.get('V') ?? fields.get('S');
  return severity === 'FATAL' || severity === 'PANIC';
}

function isFatal(type: number, body: Buffer): boolean {
  return type === fromEngine.error && isFatalError(wire.readErrorFields(body));
}
