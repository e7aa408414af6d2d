/**
 * `headgate deliver`: sends each row of a table to a receiver, signed as Standard Webhooks specifies, by the lease of docs/workers.md. Runs until it is
 * interrupted, or the receiver answers 410; returns the exit status.
 *
 *   claiming ──rows──► sending ──2xx──► done
 *      ▲ │                └──else──► later again, or dead after the last attempt
 *      │ └─ 5 failures in a row, or Retry-After ──► resting ──► one row as a probe ──┐
 *      └───────────────────────────────────────────────────────────────────────────┘
 *
 * It calls the host of `--to` and no other: HEADGATE_DELIVER_HOSTS lists it, redirects are not followed, and a row chooses nothing but its body.
 */
import { createHmac } from 'node:crypto';
import { createDelivery, isPublicAddress, publicNetwork } from '../access/outgoing.ts';
import type { OutgoingResponse, Network } from '../access/outgoing.ts';
import { leaseOn } from '../client/lease.ts';
import type { Lease } from '../client/lease.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { canonicalAddress, hostOf, isLoopbackHost } from '../kit/address.ts';
import { Networks } from '../kit/networks.ts';
import { PlainError } from '../kit/plain-error.ts';
import { Semaphore } from '../kit/semaphore.ts';
import { quoteIdentifier as quote } from '../kit/sql-text.ts';
import { within } from '../kit/timeout.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { numberOf } from '../senders/send-options.ts';
import type { Where } from './find-headgate.ts';
import { interrupted } from './print.ts';
import { rest, staying } from './session.ts';
import type { CommandSession, Texts } from './session.ts';

export interface DeliverOptions {
  readonly to: string;
  readonly secretFile: string;
  readonly column?: string;
  readonly idColumn?: string;
  readonly key?: string;
  readonly concurrency?: string;
  readonly attempts?: string;
  readonly json?: boolean;
}

/** Seconds before the next attempt, as Standard Webhooks recommends; up to half less, by chance. */
const pausesS = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400];

export async function deliverCommand(
  where: Where,
  table: string,
  options: DeliverOptions,
  settings: Pick<Settings, 'deliverHosts' | 'deliverNetworks'>,
  io: CommandIo,
): Promise<number> {
  const to = receiver(options.to, settings.deliverHosts);
  const secret = keyOf((await io.read(options.secretFile)).toString('utf8'));
  // Ends `staying` once the receiver wants no more.
  const ended = new AbortController();
  const own = { ...io, signal: AbortSignal.any([io.signal, ended.signal]) };
  const network = networkFor(to, settings.deliverNetworks);
  await refuseUnreachable(to, network);
  const delivering = new Delivering({ table, to, secret, options, network, io: own, ended });
  await staying(where.dsn, 'deliver', own, (session, begin) => delivering.work(session, begin));
  return delivering.gone ? 1 : interrupted;
}

/** Throws PlainError. */
export function receiver(text: string, hosts: readonly string[]): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || `${url.username}${url.password}${url.hash}` !== '')
    throw new PlainError('--to is no https:// URL without user, password and fragment');
  const port = url.port === '' ? (url.protocol === 'https:' ? '443' : '80') : url.port;
  if (!hosts.includes(`${url.hostname}:${port}`))
    throw new PlainError(
      `HEADGATE_DELIVER_HOSTS does not list ${url.hostname}:${port}: rows are sent to hosts that it lists, and nowhere else`,
    );
  return url;
}

/** Throws PlainError. */
export function keyOf(text: string): Buffer {
  const secret = text.trim();
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  if (!/^whsec_[A-Za-z0-9+/]+={0,2}$/.test(secret) || key.length < 24 || key.length > 64)
    throw new PlainError('the secret is not whsec_ and the base64 of 24 to 64 bytes');
  return key;
}

/** Where the receiver's name may lead: to public addresses, to networks that are listed, or to the address that the URL itself has. */
export function networkFor(to: URL, listed: string | null): Network {
  const own = canonicalAddress(hostOf(to));
  const parsed = listed === null ? null : Networks.parse(listed);
  const isListed = (address: string): boolean => parsed instanceof Networks && parsed.has(address);
  const isPlain = to.protocol === 'http:';
  return {
    resolve: publicNetwork.resolve,
    isAllowed: (text) => {
      const address = canonicalAddress(text);
      if (address === null) return false;
      if (address === own && (!isPlain || isLoopbackHost(address))) return true;
      // Without TLS only where somebody answers for the network.
      return isListed(address) || (!isPlain && isPublicAddress(address));
    },
    port: (of) => (of === '' ? (isPlain ? 80 : 443) : Number(of)),
    plain: isPlain,
  };
}

/** Throws PlainError if the settings do not permit any address that the receiver's name has now. A name that has none is a failed attempt, later. */
async function refuseUnreachable(to: URL, network: Network): Promise<void> {
  const addresses = await within(
    limits.deliverMs,
    network.resolve(hostOf(to)).catch((): readonly string[] => []),
    [],
  );
  const refused = addresses.filter((address) => !network.isAllowed(address));
  if (refused.length > 0)
    throw new PlainError(
      `${to.hostname} has addresses that are not called${to.protocol === 'http:' ? ' without TLS' : ''} (${refused.join(', ')}): HEADGATE_DELIVER_NETWORKS lists the networks that are, beside public ones with TLS`,
    );
}

interface Delivery {
  readonly table: string;
  readonly to: URL;
  readonly secret: Buffer;
  readonly options: DeliverOptions;
  readonly network: Network;
  readonly io: CommandIo;
  readonly ended: AbortController;
}

class Delivering {
  /** The receiver has said that it wants no more. */
  gone = false;
  readonly #table: string;
  readonly #to: URL;
  readonly #secret: Buffer;
  readonly #options: DeliverOptions;
  readonly #io: CommandIo;
  readonly #ended: AbortController;
  readonly #lease: Lease;
  readonly #post: ReturnType<typeof createDelivery>;
  readonly #concurrency: number;
  readonly #attempts: number;
  /** The connection runs one statement at a time. */
  readonly #turn = new Semaphore(1);
  #failures = 0;
  #restUntilMs = 0;

  constructor({ table, to, secret, options, network, io, ended }: Delivery) {
    this.#ended = ended;
    this.#table = table;
    this.#to = to;
    this.#secret = secret;
    this.#options = options;
    this.#io = io;
    const { concurrency = '8', attempts = String(limits.leaseAttempts) } = options;
    this.#concurrency = numberOf(concurrency, '--concurrency', 100);
    this.#attempts = numberOf(attempts, '--attempts', 1_000);
    const { deliverMs: outgoingMs, deliverAnswerBytesMax: outgoingBytesMax } = limits;
    this.#post = createDelivery(network, { outgoingMs, outgoingBytesMax });
    const prefix = table.replaceAll(/[^A-Za-z0-9_-]/g, '_');
    const id = options.idColumn === undefined ? `'${prefix}_' || id` : quote(options.idColumn);
    const returning = `id::text AS id, attempts::text AS attempts, (${id})::text AS delivery, ${quote(options.column ?? 'data')}::text AS body`;
    try {
      this.#lease = leaseOn(
        table,
        {},
        options.key === undefined ? 'true' : first(table, options.key),
        returning,
      );
    } catch (error) {
      throw new PlainError((error as Error).message);
    }
  }

  async work(session: CommandSession, begin: () => boolean): Promise<void> {
    const { signal } = this.#io;
    const running = new Set<Promise<void>>();
    const run = (text: string, values: readonly unknown[]): Promise<Texts[]> =>
      this.#turn.run(limits.commandConnectMs, () => session.typed(text, values));
    const lost: unknown[] = [];
    let begun = false;
    try {
      while (!signal.aborted && !this.gone && lost.length === 0) {
        const restMs = this.#restUntilMs - Date.now();
        // After a rest one row shows whether the receiver is back.
        const most = (this.#failures >= limits.deliverFailuresMax ? 1 : this.#concurrency) - running.size;
        const rows =
          restMs > 0 || most <= 0
            ? []
            : await run(this.#lease.claim, [most, limits.deliverLeaseMs / 1_000, this.#attempts]);
        if (!begun)
          this.#io.note(
            begin()
              ? `delivering ${plain(this.#table)} to ${this.#to.href}; Ctrl-C ends\n`
              : 'delivering again\n',
          );
        begun = true;
        for (const row of rows) {
          const one = this.#one(row, run)
            .catch((error: unknown) => void lost.push(error))
            .finally(() => running.delete(one));
          running.add(one);
        }
        if (rows.length > 0) continue;
        const pause = rest(
          this.#io,
          Math.max(1, Math.min(limits.deliverPauseMs, restMs > 0 ? restMs : Infinity)),
        );
        await Promise.race([pause, ...(most <= 0 ? running : [])]);
      }
    } finally {
      await Promise.all(running);
    }
    if (lost.length > 0) throw lost[0];
    if (!this.gone) return;
    this.#io.note(`${this.#to.host} answered 410: it wants no more\n`);
    this.#ended.abort();
  }

  async #one(row: Texts, run: (text: string, values: readonly unknown[]) => Promise<Texts[]>): Promise<void> {
    const { id = '', attempts = '0', delivery, body } = row;
    const mine = [id, Number(attempts)];
    const problem = problemOf(delivery ?? '', body ?? null);
    if (problem !== null) {
      await run(this.#lease.dead, [...mine, problem, this.#attempts]);
      return this.#say(id, attempts, 'dead', problem);
    }
    const { why, retryAfterS } = await this.#send(delivery ?? '', body ?? '');
    if (why === null) {
      this.#failures = 0;
      await run(this.#lease.done, mine);
      return this.#say(id, attempts, 'delivered', null);
    }
    this.#failures += 1;
    this.#restAfter(retryAfterS);
    const pauseS = (pausesS[Math.min(Number(attempts), pausesS.length) - 1] ?? 5) * (0.5 + Math.random() / 2);
    await run(this.#lease.failed, [
      ...mine,
      why,
      Number(attempts) >= this.#attempts ? 0 : Math.max(pauseS, retryAfterS),
    ]);
    this.#say(id, attempts, Number(attempts) >= this.#attempts ? 'dead' : 'failed', why);
  }

  async #send(
    id: string,
    body: string,
  ): Promise<{ readonly why: string | null; readonly retryAfterS: number }> {
    const time = String(Math.floor(Date.now() / 1_000));
    const signature = createHmac('sha256', this.#secret).update(`${id}.${time}.${body}`).digest('base64');
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': time,
      'webhook-signature': `v1,${signature}`,
    };
    try {
      const sent = { method: 'POST', headers, body: { type: 'application/json', text: body } } as const;
      const answer = await this.#post(this.#to, sent);
      const { status } = answer;
      if (status === 410) this.gone = true;
      return status >= 200 && status < 300
        ? { why: null, retryAfterS: 0 }
        : { why: `it answered ${status}`, retryAfterS: retryAfterOf(answer) };
    } catch (error) {
      return { why: (error as Error).message.slice(0, limits.reasonCharsMax), retryAfterS: 0 };
    }
  }

  #restAfter(retryAfterS: number): void {
    const beyond = this.#failures - limits.deliverFailuresMax;
    const { deliverRestMinMs, deliverRestMs } = limits;
    const openMs = beyond < 0 ? 0 : Math.min(deliverRestMs, deliverRestMinMs * 2 ** Math.min(beyond, 20));
    const restMs = Math.max(openMs, Math.min(deliverRestMs, retryAfterS * 1_000));
    if (restMs > 0) this.#restUntilMs = Math.max(this.#restUntilMs, Date.now() + restMs);
  }

  #say(id: string | null, attempt: string | null, outcome: string, why: string | null): void {
    if (this.#options.json === true) this.#io.print(jsonLine({ id, attempt: Number(attempt), outcome, why }));
    else {
      const said = why === null ? outcome : `${outcome}: ${plain(why)}`;
      this.#io.note(`row ${plain(id ?? '')}, attempt ${attempt ?? ''}: ${said}\n`);
    }
  }
}

/**
 * Why a row can never be sent; null: it can. The signed text is `id.time.body`: an id with a full stop, which a sender may have chosen, could be read as
 * another id with another body.
 */
export function problemOf(id: string, body: string | null): string | null {
  if (body === null) return 'it has no body';
  return /^[!-~]{1,256}$/.test(id) && !id.includes('.')
    ? null
    : 'its id is not up to 256 printable ASCII characters without a full stop';
}

/** No earlier row with the same key is open; the dead keep nobody waiting. $3: as of the claim. */
const first = (table: string, key: string): string => `NOT EXISTS (
    SELECT FROM ${table} e WHERE e.${quote(key)} IS NOT DISTINCT FROM o.${quote(key)} AND e.id < o.id AND e.done_at IS NULL
      AND NOT (e.attempts >= $3 AND e.run_after <= now()))`;

/** Seconds, or a date: https://www.rfc-editor.org/rfc/rfc9110#field.retry-after */
export function retryAfterOf({ headers }: Pick<OutgoingResponse, 'headers'>, nowMs = Date.now()): number {
  const text = headers['retry-after'] ?? '';
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : (Date.parse(text) - nowMs) / 1_000;
  return Number.isFinite(seconds) ? Math.min(limits.deliverRetryAfterMaxS, Math.max(0, seconds)) : 0;
}
