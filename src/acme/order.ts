/**
 * One certificate of an authority, from the order to the chain (RFC 8555 §7.4). Takes an authority and the domains;
 * returns the certificate. Throws AcmeError. Through `publish`, changes what the authority finds under the domains.
 */
import type { Authority, AcmeJson } from './authority.ts';
import { AcmeError, jsonOf, line, problemText, text } from './authority.ts';
import { certificateRequest, chainOf, newKey } from './certificates.ts';
import type { Certificate } from './certificates.ts';
import type { Challenge } from './certificate-state.ts';

export interface Issuing {
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
