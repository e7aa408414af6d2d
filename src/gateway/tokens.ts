/**
 * Tokens of CREATE TOKEN: the holder may insert events into its tables or, with one FOR SELECT, follow them, and do nothing else. Takes the
 * relevant parts of a request, returns the scope in which it may store or read; refuses with `token_required`, `page_refused`, `token_scope` and `rate_limited`. The database
 * is queried for each request (by token-rights.ts), so a dropped token or a revoked right takes effect with the next request.
 */
import { createHash } from 'node:crypto';
import { RateLimit } from '../access/rate-limit.ts';
import { parseRate } from '../kit/rate.ts';
import type { Target } from '../types/target.ts';
import { limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import type { EventStore, EventRequest } from './event-store.ts';

export interface TokenQuestion {
  /** A token FOR SELECT is meant, and otherwise one FOR INSERT. */
  readonly reads: boolean;
  /** SHA-256 of the token, in hex; null: no token. */
  readonly hash: string | null;
  /** The origin of the calling page; null: no page calls. */
  readonly origin: string | null;
}

export interface TokenAnswer {
  /** null: no such token exists. */
  readonly grant: TokenGrant | null;
  /** Some token of the database allows pages of that origin. */
  readonly originKnown: boolean;
}

export interface TokenGrant {
  readonly id: string;
  /** Only these pages; empty: the pages that may call the gateway anyway. */
  readonly origins: readonly string[];
  readonly rate: string | null;
  /** The oids of tables into which its owner may insert, or that he may read, at this moment. */
  readonly relations: ReadonlySet<number>;
}

/** Throws Refused. */
export type AskTokens = (database: string, question: TokenQuestion) => Promise<TokenAnswer>;

/** What a request with such a token shows. */
export interface ShownToken {
  /** What it is to be for. */
  readonly reads: boolean;
  /** null: a preflight, which carries no token. */
  readonly token: string | null;
  readonly origin: string | undefined;
  /** The guard's refusal of the request's origin, if any. */
  readonly place: Refusal | null;
  /** Lets pages of the origin read the answer, whatever it is. */
  readonly allowOrigin: (origin: string) => void;
}

const wrongToken = 'the bearer token is not the right one';
const noTokens = 'in front of this database there are no tokens of CREATE TOKEN';

export class ScopedTokens {
  readonly #ask: AskTokens | null;
  readonly #clock: () => number;
  /** By token, least recently used first. */
  readonly #rates = new Map<string, { readonly text: string; readonly limit: RateLimit }>();

  /** `ask`: null if the databases are not Headgate's, and have no such tokens. `clock`: monotonic, ms. */
  constructor(ask: AskTokens | null, clock: () => number) {
    this.#ask = ask;
    this.#clock = clock;
  }

  /** null: a preflight, which stores nothing. Throws Refused. */
  async admit(database: string, shown: ShownToken): Promise<Scope | null> {
    const { token, origin, place } = shown;
    if (token === null) return this.#admitPage(database, shown);
    const grant = await this.#grantOf(database, shown);
    const why = whyNotFrom(grant, origin, place) ?? this.#whyNotNow(grant);
    if (why !== null) throw new Refused(why);
    return new Scope(grant, () => this.#grantOf(database, shown), this.#clock);
  }

  async #admitPage(database: string, shown: ShownToken): Promise<null> {
    const { originKnown } = await this.#answerTo(database, shown);
    if (!originKnown) throw new Refused(shown.place ?? 'page_refused');
    return null;
  }

  async #grantOf(database: string, shown: ShownToken): Promise<TokenGrant> {
    if (this.#ask === null) throw new Refused('token_required', noTokens);
    const { grant } = await this.#answerTo(database, shown);
    if (grant === null) throw new Refused('token_required', wrongToken);
    return grant;
  }

  async #answerTo(database: string, { reads, token, origin, allowOrigin }: ShownToken): Promise<TokenAnswer> {
    if (this.#ask === null) return { grant: null, originKnown: false };
    const asked = origin !== undefined && mayBeOrigin(origin) ? origin : null;
    const hash = token === null ? null : createHash('sha256').update(token).digest('hex');
    const answer = await this.#ask(database, { reads, hash, origin: asked });
    if (answer.originKnown && asked !== null) allowOrigin(asked);
    return answer;
  }

  #whyNotNow({ id, rate }: TokenGrant): Refusal | null {
    const parsed = rate === null ? null : parseRate(rate);
    if (rate === null || parsed === null) return null;
    const known = this.#rates.get(id);
    const kept = known?.text === rate ? known : { text: rate, limit: new RateLimit(parsed, 1) };
    this.#rates.delete(id);
    for (const [oldest] of this.#rates)
      if (this.#rates.size >= limits.tokenRatesMax) this.#rates.delete(oldest);
    this.#rates.set(id, kept);
    const waitMs = kept.limit.take('', this.#clock());
    if (waitMs === 0) return null;
    return {
      ...refusal('rate_limited', 'too many requests with this token'),
      retryAfterSeconds: Math.ceil(waitMs / 1_000),
    };
  }
}

/** Questions of several callers are one statement, and with a character that the database's encoding lacks all of them would fail. */
function mayBeOrigin(text: string): boolean {
  return text.length <= limits.originCharsMax && /^[\x21-\x7e]+$/.test(text);
}

/** A token's list of pages does not apply to a caller that is no page (it sends no Origin, and no browser marks it as cross-site). */
function whyNotFrom(
  { origins }: TokenGrant,
  origin: string | undefined,
  place: Refusal | null,
): Refusal | null {
  if (origin === undefined || origins.length === 0) return place;
  return origins.includes(origin)
    ? null
    : refusal('page_refused', 'the token is not for web pages of this origin');
}

/** Where a request with a token may store: in the tables of the token, as long as the token and its owner's rights exist. */
export class Scope {
  readonly #ask: () => Promise<TokenGrant>;
  readonly #clock: () => number;
  #relations: ReadonlySet<number>;
  #askedAtMs: number;
  /** The oid of the table that was found. */
  #found: number | null = null;

  /** `ask` queries again, and throws Refused. */
  constructor({ relations }: TokenGrant, ask: () => Promise<TokenGrant>, clock: () => number) {
    this.#relations = relations;
    this.#ask = ask;
    this.#clock = clock;
    this.#askedAtMs = clock();
  }

  /** The table that a request names, if the token covers it; throws Refused. */
  async find(
    store: Pick<EventStore, 'find' | 'forget'>,
    { database, name, onConflict }: EventRequest,
    sinceMs?: number,
  ): Promise<Target> {
    if (onConflict === 'update') throw new Refused('token_scope', noUpdates);
    const isInside = async () => this.#relations.has((await store.find(database, name, 'error')).oid);
    try {
      if (!(await isInside())) {
        // Names are cached for a moment, and may mean another table by now.
        store.forget(database, name);
        if (!(await isInside())) throw new Refused('token_scope');
      }
    } catch (error) {
      throw asOutside(error);
    }
    const target = await store.find(database, name, onConflict, sinceMs);
    if (!this.#relations.has(target.oid)) throw new Refused('token_scope');
    this.#found = target.oid;
    return target;
  }

  /** Whether it covers a table that was found. */
  covers(oid: number): boolean {
    return this.#relations.has(oid);
  }

  /** Queries again while the rows of a table are sent; throws Refused. */
  async renewFor(oid: number): Promise<void> {
    const { relations } = await this.#ask();
    this.#relations = relations;
    if (!relations.has(oid)) throw new Refused('token_scope');
  }

  /** The pieces of a body, with `renew` after the last one. */
  renewing(next: () => Promise<Buffer | null>): () => Promise<Buffer | null> {
    return async () => {
      const piece = await next();
      if (piece === null) await this.renew();
      return piece;
    };
  }

  /** Queries again after a body that took long, before any of it is committed; throws Refused. */
  async renew(): Promise<void> {
    if (this.#clock() - this.#askedAtMs < limits.tokenAgeMs) return;
    const { relations } = await this.#ask();
    this.#relations = relations;
    this.#askedAtMs = this.#clock();
    if (this.#found !== null && !relations.has(this.#found)) throw new Refused('token_scope');
  }
}

const noUpdates = 'a token FOR INSERT cannot update rows: on_conflict=update is not for it';

/**
 * A table that the gateway does not find, or may not write, counts as outside too, so that a token does not reveal which tables exist.
 */
export function asOutside(error: unknown): unknown {
  const code = error instanceof Refused ? error.refusal.code : null;
  const isOutside =
    code === 'relation_not_found' || code === 'relation_not_writable' || code === 'relation_not_streamed';
  return isOutside ? new Refused('token_scope') : error;
}
