/**
 * Tokens of CREATE TOKEN: who holds one may insert events into its tables, and nothing else. Takes what a request shows of itself, gives
 * the scope in which it may store; refuses with `token_required`, `page_refused`, `token_scope` and `rate_limited`. The database is asked
 * for each request (behind it is catalog/tokens.ts), so a token that is dropped, and a right that is revoked, counts with the next one.
 */
import { createHash } from 'node:crypto';
import { RateLimit } from '../access/rate-limit.ts';
import { parseRate } from '../kit/rate.ts';
import type { Target } from '../tables/flow.ts';
import { limits } from '../tables/limits.ts';
import { refusal, Refused } from '../tables/refusals.ts';
import type { Refusal } from '../tables/refusals.ts';
import type { EventDeps, EventRequest } from './event-deps.ts';

export interface TokenQuestion {
  /** SHA-256 of the token, in hex; null: there is none. */
  readonly hash: string | null;
  /** The page that asks; null: no page does. */
  readonly origin: string | null;
}

export interface TokenAnswer {
  /** null: there is no such token. */
  readonly grant: TokenGrant | null;
  /** Some token of the database is for pages of that origin. */
  readonly originKnown: boolean;
}

export interface TokenGrant {
  readonly id: string;
  /** Of these pages alone; empty: of those that may call the gateway anyway. */
  readonly origins: readonly string[];
  readonly rate: string | null;
  /** Tables, by oid, into which its owner may insert at this moment. */
  readonly relations: ReadonlySet<number>;
}

/** Throws Refused. */
export type AskTokens = (database: string, question: TokenQuestion) => Promise<TokenAnswer>;

/** What a request with a token of its own shows. */
export interface Shown {
  readonly database: string;
  /** null: a preflight, which carries none. */
  readonly token: string | null;
  readonly origin: string | undefined;
  /** What the guard says of the place that it comes from. */
  readonly place: Refusal | null;
  /** Lets pages of the origin read the answer, whatever that will be. */
  readonly allowOrigin: (origin: string) => void;
}

const wrongToken = 'the bearer token is not the right one';
const noTokens = 'in front of this database there are no tokens of CREATE TOKEN';

export class ScopedTokens {
  readonly #ask: AskTokens | null;
  readonly #clock: () => number;
  /** By token, the one that was used longest ago first. */
  readonly #rates = new Map<string, { readonly text: string; readonly limit: RateLimit }>();

  /** `ask`: null where the databases are not Headgate's, and have no such tokens. `clock`: monotonic, ms. */
  constructor(ask: AskTokens | null, clock: () => number) {
    this.#ask = ask;
    this.#clock = clock;
  }

  /** null: a preflight, which stores nothing. Throws Refused. */
  async admit(shown: Shown): Promise<Scope | null> {
    const { token, origin, place } = shown;
    if (token === null) return this.#admitPage(shown);
    const grant = await this.#grantOf(shown);
    const why = whyNotFrom(grant, origin, place) ?? this.#whyNotNow(grant);
    if (why !== null) throw new Refused(why);
    return new Scope(grant, () => this.#grantOf(shown), this.#clock);
  }

  async #admitPage(shown: Shown): Promise<null> {
    const { originKnown } = await this.#answerTo(shown);
    if (!originKnown) throw new Refused(shown.place ?? 'page_refused');
    return null;
  }

  async #grantOf(shown: Shown): Promise<TokenGrant> {
    if (this.#ask === null) throw new Refused('token_required', noTokens);
    const { grant } = await this.#answerTo(shown);
    if (grant === null) throw new Refused('token_required', wrongToken);
    return grant;
  }

  async #answerTo({ database, token, origin, allowOrigin }: Shown): Promise<TokenAnswer> {
    if (this.#ask === null) return { grant: null, originKnown: false };
    const asked = origin !== undefined && origin.length <= limits.originCharsMax ? origin : null;
    const hash = token === null ? null : createHash('sha256').update(token).digest('hex');
    const answer = await this.#ask(database, { hash, origin: asked });
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

/** Who is no page (it sends no Origin, and no browser says that it is of another site) is not asked for one. */
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

/** Where a request with a token may store: in the tables of the token, as long as it and its owner's rights are there. */
export class Scope {
  readonly #ask: () => Promise<TokenGrant>;
  readonly #clock: () => number;
  #relations: ReadonlySet<number>;
  #askedAtMs: number;
  /** The table that was found, by oid. */
  #found: number | null = null;

  /** `ask` asks anew, and throws Refused. */
  constructor({ relations }: TokenGrant, ask: () => Promise<TokenGrant>, clock: () => number) {
    this.#relations = relations;
    this.#ask = ask;
    this.#clock = clock;
    this.#askedAtMs = clock();
  }

  /** The table that a request names, if it is one of the token's; throws Refused. */
  async find(
    { find, forget }: Pick<EventDeps, 'find' | 'forget'>,
    { database, name, onConflict }: EventRequest,
  ): Promise<Target> {
    if (onConflict === 'update') throw new Refused('token_scope', noUpdates);
    const isInside = async () => this.#relations.has((await find(database, name, 'error')).oid);
    try {
      if (!(await isInside())) {
        // What a name means is remembered for a moment, and may be another table by now.
        forget(database, name);
        if (!(await isInside())) throw new Refused('token_scope');
      }
    } catch (error) {
      throw asOutside(error);
    }
    const target = await find(database, name, onConflict);
    if (!this.#relations.has(target.oid)) throw new Refused('token_scope');
    this.#found = target.oid;
    return target;
  }

  /** Asks again behind a body that took its time, before anything of it is committed; throws Refused. */
  async renew(): Promise<void> {
    if (this.#clock() - this.#askedAtMs < limits.tokenAgeMs) return;
    const { relations } = await this.#ask();
    this.#relations = relations;
    this.#askedAtMs = this.#clock();
    if (this.#found !== null && !relations.has(this.#found)) throw new Refused('token_scope');
  }
}

const noUpdates = 'a token FOR INSERT cannot update rows: on_conflict=update is not for it';

/** A table that the gateway does not find, or may not write, is outside, too: a token tells nobody which tables there are. */
function asOutside(error: unknown): unknown {
  const code = error instanceof Refused ? error.refusal.code : null;
  const isOutside = code === 'relation_not_found' || code === 'relation_not_writable';
  return isOutside ? new Refused('token_scope') : error;
}
