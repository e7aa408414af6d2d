/**
 * From a request target to the table that it names, and which methods such requests may have. Pure: takes the target as received, returns the three names;
 * refuses with `malformed_path`, `not_found` and `method_not_allowed`; only the catalog knows whether such a table exists.
 */
import type { TableName } from '../observe/observations.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import type { Refusal } from '../errors/refusals.ts';
import { remembered } from '../kit/memoize.ts';
import { limits } from '../config/limits.ts';
import type { Target } from '../types/target.ts';

export const webhookPrefix = '/webhook/';
const ingestPrefix = '/ingest/';
/** As traces name them. */
export const webhookTemplate = `${webhookPrefix}{database}/{schema}/{table}`;
export const ingestTemplate = `${ingestPrefix}{database}/{schema}/{table}`;

/** Longest name that is looked up, in bytes; PostgreSQL's own names have 63 at most. */
const nameBytesMax = 255;

/** Whether a target belongs to the webhook door, however malformed its rest is. */
export function isWebhookTarget(target: string): boolean {
  return isBelow(webhookPrefix, target);
}

/** The same for the WebSocket door. */
export function isIngestTarget(target: string): boolean {
  return isBelow(ingestPrefix, target);
}

function isBelow(prefix: string, target: string): boolean {
  return target.startsWith(prefix) || (target.charCodeAt(0) !== 47 && originForm(target).startsWith(prefix));
}

/** The table that a webhook's target names, `/webhook/<database>/<schema>/<table>[?query]`: from memory if it is a frequent one. Throws Refused. */
export const webhookRoute = remembered((target) => routeBelow(webhookPrefix, target), limits.targetsKnownMax);

/** The same for a WebSocket's, `/ingest/<database>/<schema>/<table>[?query]`. */
export function ingestRoute(target: string): TableName {
  return routeBelow(ingestPrefix, target);
}

/**
 * Reads `<prefix><database>/<schema>/<table>[?query]`. Each name is percent-decoded once, as UTF-8; an
 * encoded slash belongs to its name. `target` is what Node provides: one char for each byte of the wire.
 * Proxies may send the absolute form (RFC 9112 §3.2.2), which names the same table.
 */
function routeBelow(prefix: string, target: string): TableName {
  const origin = originForm(target);
  // A request never has a fragment (RFC 9112 §3.2); a sender that sends one means another URL than the one read here.
  if (origin.includes('#')) throw new Refused('malformed_path');
  const query = origin.indexOf('?');
  const path = query === -1 ? origin : origin.slice(0, query);
  if (!path.startsWith(prefix)) throw new Refused('not_found');
  const parts = path.slice(prefix.length).split('/');
  const names = parts.map(decodeName);
  if (names.includes(null)) throw new Refused('malformed_path');
  const [database, schema, table, ...rest] = names;
  if (!isName(database) || !isName(schema) || !isName(table) || rest.length > 0)
    throw new Refused('not_found');
  return { database, schema, table };
}

function originForm(target: string): string {
  const absolute = /^https?:\/\/[^/?#]*/i.exec(target);
  return absolute === null ? target : target.slice(absolute[0].length);
}

function isName(name: string | null | undefined): name is string {
  return typeof name === 'string' && name !== '' && name !== '.' && name !== '..' && !name.includes('\0');
}

/** null: an invalid escape, or bytes that are not UTF-8. Names that no table can have become ''. */
function decodeName(part: string): string | null {
  if (part.length > nameBytesMax * 3) return '';
  if (/^[\x21-\x24\x26-\x7e]*$/.test(part)) return part.length > nameBytesMax ? '' : part;
  if (/%(?![0-9a-f]{2})/i.test(part) || /[^\x21-\xff]/.test(part)) return null;
  const bytes = part.replace(/%../g, (escape) => String.fromCharCode(Number.parseInt(escape.slice(1), 16)));
  if (bytes.length > nameBytesMax) return '';
  try {
    return strictUtf8.decode(Buffer.from(bytes, 'latin1'));
  } catch {
    return null;
  }
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** `GET and POST are`. */
export function only(methods: ReadonlySet<string>): string {
  const names = [...methods];
  return names.length === 1 ? `${names[0]} is` : `${names.slice(0, -1).join(', ')} and ${names.at(-1)} are`;
}

/** Throws Refused (`method_not_allowed`). For a table without the option `methods` this costs one comparison. */
export function refuseOtherMethod(target: Target, method: string): void {
  const { methods } = target;
  if (methods === undefined ? method !== 'POST' : !methods.has(method))
    throw new Refused(wrongMethod(target));
}

/** Names the methods that the table takes. */
export function wrongMethod({ methods }: Pick<Target, 'methods'>): Refusal {
  if (methods === undefined) return refusal('method_not_allowed');
  const message = `only ${only(methods)} allowed here`;
  return { ...refusal('method_not_allowed', message), allow: [...methods].join(', ') };
}
