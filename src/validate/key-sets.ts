/**
 * The keys that issuers of tokens publish (JWK sets, RFC 7517), for `jwt_verify(…, jwks => …)` in VALIDATE. Takes URLs from checks; fetches only from
 * hosts that HEADGATE_JWKS_HOSTS lists, by the one way out (access/outgoing.ts). Refuses with `table_unusable` (503) as long as there are no keys.
 *
 *   none ──fetched──► fresh ──jwksFreshMs──► aged: used, and fetched again meanwhile ──jwksStaleMs──► none
 *
 * A request waits only if there are none, or if its token names a key that is not there. Two attempts for one URL are jwksPauseMs apart, so
 * that whoever invents names of keys causes one call a minute.
 */
import { createFetch, hostAndPort, networkFor } from '../access/outgoing.ts';
import type { Fetch } from '../access/outgoing.ts';
import type { Limits } from '../config/limits.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { StageContext } from '../observe/context.ts';
import type { FetchedKeys } from '../types/target.ts';
import { EvaluationError } from './errors.ts';
import { publishedTokenKeys } from './jwt.ts';
import type { PublishedKeys, TokenKeys } from './jwt.ts';

type KeySetContext = Pick<StageContext, 'clock' | 'limits' | 'observe'>;

export class KeySets {
  readonly #hosts: readonly string[];
  readonly #context: KeySetContext;
  readonly #fetch: Fetch;
  /** By URL, that which was asked for last at the end. */
  readonly #sets = new Map<string, KeySet>();

  /** `hosts`: HEADGATE_JWKS_HOSTS. `fetch`: the network, or a test's replacement for it. */
  constructor(hosts: readonly string[], context: KeySetContext, fetch: Fetch = fetchOf(context.limits)) {
    this.#hosts = hosts;
    this.#context = context;
    this.#fetch = fetch;
  }

  /** Why no keys are fetched from one of these URLs; null: they are. */
  problem(urls: readonly string[]): string | null {
    for (const text of urls) {
      const url = URL.canParse(text) ? new URL(text) : null;
      if (url === null || `${url.username}${url.password}${url.hash}` !== '')
        return `${text} is no URL without user, password and fragment`;
      const host = hostAndPort(url);
      if (!this.#hosts.includes(host))
        return `keys are not fetched from ${host}: HEADGATE_JWKS_HOSTS does not list it`;
    }
    return null;
  }

  /** Throws the problem. */
  readonly open = (url: string): PublishedKeys & FetchedKeys => this.#open(url);

  #open(url: string): KeySet {
    const problem = this.problem([url]);
    if (problem !== null) throw new Error(problem);
    const set = this.#sets.get(url) ?? new KeySet(new URL(url), this.#fetch, this.#context);
    this.#sets.delete(url);
    this.#sets.set(url, set);
    const [first = url] = this.#sets.keys();
    // Checks that use it keep theirs.
    if (this.#sets.size > this.#context.limits.jwksKeptMax) this.#sets.delete(first);
    return set;
  }

  /** undefined: there are none. Throws the problem. */
  of(urls: readonly string[]): FetchedKeys | undefined {
    const sets = urls.map((url) => this.#open(url));
    if (sets.length === 0) return undefined;
    return {
      ready() {
        const waits = sets.flatMap((set) => set.ready() ?? []);
        return waits.length === 0 ? null : Promise.all(waits).then(() => undefined);
      },
      async renewed() {
        const again = await Promise.all(sets.map((set) => set.renewed()));
        return again.includes(true);
      },
    };
  }
}

function fetchOf(limits: Limits): Fetch {
  const bounds = { outgoingMs: limits.outgoingMs, outgoingBytesMax: limits.jwksBytesMax };
  return (url) => createFetch(networkFor(url, null), bounds)(url);
}

/** The keys of one URL. */
class KeySet implements PublishedKeys, FetchedKeys {
  readonly #url: URL;
  readonly #fetch: Fetch;
  readonly #context: KeySetContext;
  #keys: TokenKeys | null = null;
  #fetchedMs = -Infinity;
  #triedMs = -Infinity;
  #running: Promise<void> | null = null;
  #reason = 'they were not fetched yet';
  #missed = false;

  constructor(url: URL, fetch: Fetch, context: KeySetContext) {
    this.#url = url;
    this.#fetch = fetch;
    this.#context = context;
  }

  current(): TokenKeys {
    const keys = this.#usable;
    if (keys === null) throw new EvaluationError('58030', this.#problem);
    return keys;
  }

  missed(): void {
    this.#missed = true;
  }

  ready(): Promise<void> | null {
    const { jwksFreshMs, jwksPauseMs } = this.#context.limits;
    if (this.#usable === null) return this.#first();
    if (this.#ageMs > jwksFreshMs) void this.#again(jwksPauseMs);
    return null;
  }

  async renewed(): Promise<boolean> {
    if (!this.#missed) return false;
    this.#missed = false;
    const before = this.#keys;
    await this.#again(this.#context.limits.jwksPauseMs);
    return this.#keys !== before;
  }

  async #first(): Promise<void> {
    await this.#again(this.#context.limits.jwksEmptyPauseMs);
    if (this.#usable !== null) return;
    throw new Refused(
      'table_unusable',
      `${refusal('table_unusable').message}: the keys of its check are not there`,
    );
  }

  /** Never rejects. null: it is too early. */
  #again(pauseMs: number): Promise<void> | null {
    if (this.#running !== null) return this.#running;
    const nowMs = this.#context.clock();
    if (nowMs - this.#triedMs < pauseMs) return null;
    this.#triedMs = nowMs;
    this.#running = this.#load().finally(() => void (this.#running = null));
    return this.#running;
  }

  async #load(): Promise<void> {
    const { clock, observe } = this.#context;
    const url = this.#url.href;
    try {
      const bytes = await this.#fetch(this.#url);
      this.#keys = publishedTokenKeys(bytes.toString('utf8'));
      this.#fetchedMs = clock();
      observe({ kind: 'jwks.fetched', url, keys: this.#keys.length });
    } catch (error) {
      this.#reason = error instanceof Error ? error.message : String(error);
      observe({ kind: 'jwks.failed', url, reason: this.#reason });
    }
  }

  get #ageMs(): number {
    return this.#context.clock() - this.#fetchedMs;
  }

  get #usable(): TokenKeys | null {
    return this.#ageMs < this.#context.limits.jwksStaleMs ? this.#keys : null;
  }

  get #problem(): string {
    return `the keys of ${this.#url.href} are not there: ${this.#reason}`;
  }
}
