/**
 * The deliveries of a GitHub webhook (docs.github.com, “REST API endpoints for repository webhook deliveries” and “… organization webhook
 * deliveries”, November 2026): a page of at most 100, the next one by the `cursor` of the header Link; `POST …/attempts` delivers one again, with
 * the same `guid`, which is the header X-GitHub-Delivery. Deliveries can be redelivered for three days (“Redelivering webhooks”). Pure.
 */
import type { IncomingHttpHeaders } from 'node:http';
import { jsonOf, LogUnreadable, momentOf, plainText } from '../delivery-log.ts';
import type { DeliveryLog, LogKind, LogPage } from '../delivery-log.ts';

export const githubLog: LogKind = {
  sender: 'github',
  name: 'GitHub',
  api: 'https://api.github.com',
  dedupe: 'header:x-github-delivery',
  keptS: 3 * 86_400,
  readPauseMs: 100,
  // “Best practices for using the REST API”: at least a second between requests that change something.
  againPauseMs: 1_000,
  parse,
  forms: ['github:<owner>/<repository>/hooks/<id>', 'github:orgs/<organization>/hooks/<id>'],
};

const name = '[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?';
const ofOrganization = new RegExp(`^orgs/(${name})/hooks/([1-9]\\d{0,18})$`);
const ofRepository = new RegExp(`^(${name})/([A-Za-z0-9._-]{1,100})/hooks/([1-9]\\d{0,18})$`);

function parse(of: string): DeliveryLog | null {
  const [, organization, hookOf] = ofOrganization.exec(of) ?? [];
  if (organization !== undefined) return logAt(of, `/orgs/${organization}/hooks/${hookOf}/deliveries`);
  const [, owner, repository, hook] = ofRepository.exec(of) ?? [];
  if (owner === undefined || repository === undefined || /^\.\.?$/.test(repository)) return null;
  return logAt(of, `/repos/${owner}/${repository}/hooks/${hook}/deliveries`);
}

function logAt(of: string, path: string): DeliveryLog {
  return {
    sender: 'github',
    text: `github:${of}`,
    headers: (token) => ({
      Authorization: `Bearer ${token}`,
      Accept: 'application/vnd.github+json',
      'X-GitHub-Api-Version': '2022-11-28',
    }),
    filter: null,
    page: (cursor) => ({
      method: 'GET',
      path: `${path}?per_page=100${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`,
    }),
    read: readPage,
    again: (logId) => ({ method: 'POST', path: `${path}/${encodeURIComponent(logId)}/attempts` }),
    fetched: null,
  };
}

interface GithubDelivery {
  readonly id?: unknown;
  readonly guid?: unknown;
  readonly delivered_at?: unknown;
  readonly redelivery?: unknown;
}

function readPage(body: Buffer, headers: IncomingHttpHeaders): LogPage {
  // Ids have more digits than a number of JavaScript keeps.
  const items = jsonOf(
    Buffer.from(body.toString('utf8').replaceAll(/("id":\s*)(\d{1,30})(?=\s*[,}])/g, '$1"$2"')),
  );
  if (!Array.isArray(items)) throw new LogUnreadable('the answer is no list');
  const deliveries = (items as (GithubDelivery | null)[]).flatMap((item) => {
    if (item === null || typeof item !== 'object') throw new LogUnreadable('a delivery is no object');
    // Of an earlier entry, which is the one that counts.
    if (item.redelivery === true) return [];
    const atMs = momentOf(Date.parse(String(item.delivered_at)), 'delivered_at');
    return [{ id: plainText(item.guid, 'guid'), logId: plainText(item.id, 'id'), atMs }];
  });
  return { deliveries, cursor: nextCursor(headers.link) };
}

/** Of the URL only the cursor is taken: where it leads is known. */
function nextCursor(link: string | string[] | undefined): string | null {
  const text = Array.isArray(link) ? link.join(', ') : (link ?? '');
  const [, url = ''] = /<([^<>]{1,2000})>\s*;\s*rel="next"/.exec(text) ?? [];
  const [, cursor] = /[?&]cursor=([^&#]{1,400})/.exec(url) ?? [];
  if (cursor === undefined) return null;
  try {
    return plainText(decodeURIComponent(cursor), 'the cursor');
  } catch {
    throw new LogUnreadable('the cursor is not a plain text');
  }
}
