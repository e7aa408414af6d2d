/**
 * A certificate authority that speaks ACME (RFC 8555), and one certificate of it, from the order to the chain (`issue`, §7.4). Takes the URL of its directory
 * and the key of an account, or domains; returns answers to signed requests, or the certificate. Throws AcmeError, in one line, for whatever an authority may
 * do: every answer is bounded in bytes and time (access/outgoing.ts), no redirect is followed, and no URL on another host than the directory's is called.
 * Touches the network and, through `publish`, what the authority finds under the domains.
 */
import { createHash, createHmac, createPublicKey, sign } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { retryAfterMs } from '../access/outgoing.ts';
import type { OutgoingResponse, HttpExchange } from '../access/outgoing.ts';
import { limits } from '../config/limits.ts';
import { certificateRequest, chainOf, newKey } from './certificates.ts';
import type { Certificate } from './certificates.ts';
import type { Challenge } from './certificate-state.ts';

/** The message is for the log: one line, without anything that a stranger could inject. */
export class AcmeError extends Error {
  override readonly name = 'AcmeError';
  /** When the authority wants to be asked again, in ms from now; null: it did not say. */
  readonly retryMs: number | null;

  constructor(message: string, retryMs: number | null = null) {
    super(message);
    this.retryMs = retryMs;
  }
}

/** As whom certificates are requested, and where. */
interface AcmeAccount {
  /** The authority's directory (RFC 8555 §7.1.1), a URL. */
  readonly directory: string;
  /** PEM */
  readonly accountKey: string;
  /** Sent with mailto: in front; null: the authority mails nobody. */
  readonly contact: string | null;
  /** An account that the owner has at the authority already (RFC 8555 §7.3.4); null: none. */
  readonly external: { readonly id: string; readonly key: string } | null;
}

type AcmeJson = Readonly<Record<string, unknown>>;

export class Authority {
  readonly #account: AcmeAccount;
  readonly #exchange: HttpExchange;
  readonly #signal: AbortSignal;
  readonly #origin: string;
  readonly #publicKey: AcmeJson;
  #directory: AcmeJson = {};
  /** The URL that identifies the account, once it is known. */
  #accountUrl: string | null = null;
  #nonce: string | null = null;

  /** Resolves once the account exists and its owner has agreed to the terms. `signal` ends every wait. */
  static async open(exchange: HttpExchange, account: AcmeAccount, signal: AbortSignal): Promise<Authority> {
    const authority = new Authority(exchange, account, signal);
    await authority.#open();
    return authority;
  }

  private constructor(exchange: HttpExchange, account: AcmeAccount, signal: AbortSignal) {
    this.#exchange = exchange;
    this.#account = account;
    this.#signal = signal;
    this.#origin = new URL(account.directory).origin;
    const { kty, crv, x, y } = createPublicKey(account.accountKey).export({ format: 'jwk' });
    // The order in which the key's digest is computed (RFC 7638).
    this.#publicKey = { crv, kty, x, y };
  }

  /** What proves, under a domain, that this account is asking. */
  authorization(token: string): string {
    return `${token}.${createHash('sha256').update(JSON.stringify(this.#publicKey)).digest('base64url')}`;
  }

  /** `null`: the URL is only read (POST-as-GET). */
  async post(url: string, payload: AcmeJson | null): Promise<OutgoingResponse> {
    for (let attempt = 1; ; attempt++) {
      const answer = await this.#call(url, 'POST', await this.#signed(url, payload));
      if (answer.status < 400) return answer;
      const problem = problemOf(answer);
      if (problem.type !== badNonce || attempt >= limits.acmeNoncesMax) throw problem.error;
    }
  }

  async order(domains: readonly string[]): Promise<{ readonly url: string; readonly order: AcmeJson }> {
    const identifiers = domains.map((value) => ({ type: 'dns', value }));
    const answer = await this.post(text(this.#directory, 'newOrder'), { identifiers });
    return { url: locationOf(answer), order: jsonOf(answer) };
  }

  /** Polls a URL until `isDone`. */
  async until(url: string, isDone: (found: AcmeJson) => boolean): Promise<AcmeJson> {
    for (;;) {
      const answer = await this.post(url, null);
      const found = jsonOf(answer);
      if (isDone(found)) return found;
      const waitMs = Math.min(retryOf(answer) ?? limits.acmePollMs, limits.acmePollMsMax);
      await delay(Math.max(waitMs, limits.acmePollMs), undefined, { signal: this.#signal }).catch(() => {
        throw new AcmeError('the authority took too long');
      });
    }
  }

  async #open(): Promise<void> {
    const { directory, contact, external } = this.#account;
    const answer = await this.#call(directory, 'GET');
    if (answer.status !== 200) throw problemOf(answer).error;
    this.#directory = jsonOf(answer);
    const url = text(this.#directory, 'newAccount');
    const { externalAccountRequired: isExternal } = (this.#directory['meta'] ?? {}) as AcmeJson;
    if (isExternal === true && external === null)
      throw new AcmeError('the authority asks for an account of its own: set HEADGATE_LISTEN_ACME_EAB_ID');
    const account = await this.post(url, {
      termsOfServiceAgreed: true,
      ...(contact === null ? {} : { contact: [`mailto:${contact}`] }),
      ...(external === null ? {} : { externalAccountBinding: this.#bound(url, external) }),
    });
    this.#accountUrl = locationOf(account);
  }

  /** The account's key, signed with the key that its owner has from the authority. */
  #bound(url: string, { id, key }: { readonly id: string; readonly key: string }): AcmeJson {
    const protected_ = encoded({ alg: 'HS256', kid: id, url });
    const payload = encoded(this.#publicKey);
    const hmac = createHmac('sha256', Buffer.from(key, 'base64url'));
    return {
      protected: protected_,
      payload,
      signature: hmac.update(`${protected_}.${payload}`).digest('base64url'),
    };
  }

  async #signed(url: string, payload: AcmeJson | null): Promise<string> {
    const nonce = this.#nonce ?? (await this.#newNonce());
    this.#nonce = null;
    const who = this.#accountUrl === null ? { jwk: this.#publicKey } : { kid: this.#accountUrl };
    const protected_ = encoded({ alg: 'ES256', ...who, nonce, url });
    const content = payload === null ? '' : encoded(payload);
    const key = { key: this.#account.accountKey, dsaEncoding: 'ieee-p1363' } as const;
    const signature = sign('sha256', Buffer.from(`${protected_}.${content}`), key).toString('base64url');
    return JSON.stringify({ protected: protected_, payload: content, signature });
  }

  async #newNonce(): Promise<string> {
    await this.#call(text(this.#directory, 'newNonce'), 'HEAD');
    if (this.#nonce === null) throw new AcmeError('the authority gave no nonce');
    return this.#nonce;
  }

  async #call(url: string, method: 'GET' | 'HEAD' | 'POST', jws?: string): Promise<OutgoingResponse> {
    if (!URL.canParse(url) || new URL(url).origin !== this.#origin)
      throw new AcmeError('the authority names a URL of another host');
    const body = jws === undefined ? {} : { body: { type: 'application/jose+json', text: jws } };
    try {
      const answer = await this.#exchange(new URL(url), { method, signal: this.#signal, ...body });
      const nonce = answer.headers['replay-nonce'];
      if (typeof nonce === 'string' && /^[\w-]{1,256}$/.test(nonce)) this.#nonce = nonce;
      return answer;
    } catch (error) {
      throw new AcmeError(`the authority was not reached: ${line(error)}`);
    }
  }
}

const badNonce = 'urn:ietf:params:acme:error:badNonce';

function encoded(value: AcmeJson): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

function jsonOf({ body }: OutgoingResponse): AcmeJson {
  try {
    const found: unknown = JSON.parse(body.toString('utf8'));
    if (typeof found === 'object' && found !== null && !Array.isArray(found)) return found as AcmeJson;
  } catch {
    // Treated like any other answer that is not a JSON object.
  }
  throw new AcmeError('the authority answered no JSON object');
}

function text(found: AcmeJson, name: string): string {
  const value = found[name];
  if (typeof value !== 'string' || value === '' || value.length > limits.acmeTextCharsMax)
    throw new AcmeError(`the authority's answer has no usable ${name}`);
  return value;
}

function locationOf({ headers: { location = '' } }: OutgoingResponse): string {
  return text({ location }, 'location');
}

/** In ms from now; null: at once, or as usual. */
function retryOf(answer: OutgoingResponse): number | null {
  const ms = retryAfterMs(answer, Date.now());
  return ms !== null && ms > 0 ? ms : null;
}

function problemOf(answer: OutgoingResponse): { readonly type: string; readonly error: AcmeError } {
  const found = (() => {
    try {
      return jsonOf(answer);
    } catch {
      return {};
    }
  })();
  const type = typeof found['type'] === 'string' ? found['type'] : '';
  const said = problemText(found) ?? `it answered ${answer.status}`;
  return { type, error: new AcmeError(`the authority refused: ${said}`, retryOf(answer)) };
}

/** What a problem document says (RFC 9457), in one line; null: nothing. */
function problemText(found: unknown): string | null {
  if (typeof found !== 'object' || found === null) return null;
  const { type, detail } = found as AcmeJson;
  const [kind, said] = [type, detail].map((it) => (typeof it === 'string' ? line(it) : ''));
  const short = kind?.replace('urn:ietf:params:acme:error:', '') ?? '';
  if (short === '' && said === '') return null;
  return [short, said].filter((it) => it !== '').join(': ');
}

/** One line of a text or error from elsewhere. */
export function line(said: unknown): string {
  const all = said instanceof Error ? said.message : String(said);
  return all.replaceAll(/[^\x21-\x7e]+/g, ' ').slice(0, limits.acmeReasonCharsMax);
}

interface Issuing {
  readonly authority: Authority;
  readonly domains: readonly string[];
  readonly challenge: 'http-01' | 'tls-alpn-01';
  /** Resolves once every Headgate that may be asked under these domains answers accordingly. */
  readonly publish: (challenges: readonly Challenge[]) => Promise<void>;
  /** ms since 1970 */
  readonly now: () => number;
}

export async function issue({ authority, domains, ...issuing }: Issuing): Promise<Certificate> {
  const { url, order } = await authority.order(domains);
  const asked = await askedOf(order, authority, domains, issuing.challenge);
  await issuing.publish(asked.map(({ challenge }) => challenge));
  for (const { url: ready } of asked) await authority.post(ready, {});
  for (const { authorization, challenge } of asked) {
    const found = await authority.until(authorization, ({ status }) => status !== 'pending');
    if (found['status'] !== 'valid') throw failed(found, challenge.domain);
  }
  const isReady = ({ status }: AcmeJson) => status !== 'pending' && status !== 'processing';
  const whole = await authority.until(url, isReady);
  if (whole['status'] !== 'ready' && whole['status'] !== 'valid') throw orderFailed(whole);
  const key = newKey();
  const csr = certificateRequest(domains, key).toString('base64url');
  await authority.post(text(whole, 'finalize'), { csr });
  const done = await authority.until(url, (it) => isReady(it) && it['status'] !== 'ready');
  if (done['status'] !== 'valid') throw orderFailed(done);
  const { body } = await authority.post(text(done, 'certificate'), null);
  try {
    return { chain: chainOf(body.toString('latin1'), domains, key, issuing.now()), key };
  } catch (error) {
    throw new AcmeError(`the authority gave nothing usable: ${line(error)}`);
  }
}

interface OrderedAuthorization {
  /** The URLs of the authorization and of its challenge. */
  readonly authorization: string;
  readonly url: string;
  readonly challenge: Challenge;
}

/** What is still to be proven; the authority may remember domains that it validated recently. */
async function askedOf(
  order: AcmeJson,
  authority: Authority,
  domains: readonly string[],
  type: Issuing['challenge'],
): Promise<readonly OrderedAuthorization[]> {
  const urls = list(order['authorizations']);
  if (urls.length !== domains.length) throw new AcmeError('the authority asks for other domains');
  const asked: OrderedAuthorization[] = [];
  for (const each of urls) {
    const authorization = text({ each }, 'each');
    const found = jsonOf(await authority.post(authorization, null));
    const domain = text((found['identifier'] ?? {}) as AcmeJson, 'value').toLowerCase();
    if (!domains.includes(domain)) throw new AcmeError('the authority asks for other domains');
    if (found['status'] === 'valid') continue;
    const challenge = list(found['challenges']).find((it) => (it as AcmeJson | null)?.['type'] === type);
    if (found['status'] !== 'pending' || challenge === undefined)
      throw new AcmeError(`the authority offers no ${type} for ${domain}`);
    const token = text(challenge as AcmeJson, 'token');
    // The token becomes a path, and the key of an answer to strangers.
    if (!/^[\w-]{16,256}$/.test(token)) throw new AcmeError('the authority gave no usable token');
    const shown = { domain, token, authorization: authority.authorization(token) };
    asked.push({ authorization, url: text(challenge as AcmeJson, 'url'), challenge: shown });
  }
  return asked;
}

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

function failed({ challenges }: AcmeJson, domain: string): AcmeError {
  const said = list(challenges).map((it) => problemText((it as AcmeJson | null)?.['error']));
  return new AcmeError(`${domain}: ${said.find((it) => it !== null) ?? 'the authority does not say why'}`);
}

function orderFailed({ error }: AcmeJson): AcmeError {
  return new AcmeError(`the order failed: ${problemText(error) ?? 'the authority does not say why'}`);
}
