/**
 * What is delivered where: the options of `headgate deliver`, and the file that HEADGATE_DELIVER names, a JSON array of such options. Takes texts, returns
 * plans; refuses (PlainError) a receiver whose host is not listed, a secret that is none, and whatever else is not understood.
 */
import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { hostAndPort, networkFor } from '../access/outgoing.ts';
import type { Network } from '../access/outgoing.ts';
import { limits } from '../config/limits.ts';
import type { Settings } from '../config/settings.ts';
import { hostOf } from '../kit/address.ts';
import { PlainError } from '../kit/plain-error.ts';
import { within } from '../kit/promises.ts';

export type DeliverSettings = Pick<Settings, 'deliver' | 'deliverHosts' | 'deliverNetworks'>;

export interface DeliveryPlan {
  readonly table: string;
  readonly to: URL;
  readonly secret: Buffer;
  readonly network: Network;
  readonly column: string;
  /** null: the table's name and the id. */
  readonly idColumn: string | null;
  readonly key: string | null;
  readonly concurrency: number;
  readonly attempts: number;
}

/** A plan of `headgate start`. */
export interface ServicePlan extends DeliveryPlan {
  /** null: the default one. */
  readonly database: string | null;
  readonly name: { readonly schema: string; readonly table: string };
}

interface PlanOptions {
  readonly to: string;
  readonly column?: string;
  readonly idColumn?: string;
  readonly key?: string;
  readonly concurrency?: number;
  readonly attempts?: number;
}

export const concurrencyMax = 100;
export const attemptsMax = 1_000;

/** Throws PlainError. `secret`: as its file has it. */
export function planOf(
  table: string,
  options: PlanOptions,
  secret: string,
  { deliverHosts, deliverNetworks }: DeliverSettings,
): DeliveryPlan {
  const to = receiver(options.to, deliverHosts);
  return {
    table,
    to,
    secret: keyOf(secret),
    network: networkFor(to, deliverNetworks),
    column: options.column ?? 'data',
    idColumn: options.idColumn ?? null,
    key: options.key ?? null,
    concurrency: options.concurrency ?? limits.deliverConcurrency,
    attempts: options.attempts ?? limits.leaseAttempts,
  };
}

/** Throws PlainError. */
export function receiver(text: string, hosts: readonly string[]): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/.test(url.protocol) || `${url.username}${url.password}${url.hash}` !== '')
    throw new PlainError('the receiver is no https:// URL without user, password and fragment');
  const host = hostAndPort(url);
  if (!hosts.includes(host))
    throw new PlainError(
      `HEADGATE_DELIVER_HOSTS does not list ${host}: rows are sent to hosts that it lists, and nowhere else`,
    );
  return url;
}

/** Throws PlainError. */
export function keyOf(text: string): Buffer {
  const secret = text.trim();
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  if (!/^whsec_[A-Za-z0-9+/]+={0,2}$/.test(secret) || key.length < 24 || key.length > 64)
    throw new PlainError(
      'the secret is not whsec_ and the base64 of 24 to 64 bytes: headgate send standard_webhooks --make-secret prints one',
    );
  return key;
}

/** Throws PlainError if the settings do not permit any address that the receiver's name has now. A name that has none is a failed attempt, later. */
export async function refuseUnreachable({ to, network }: DeliveryPlan): Promise<void> {
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

/** Of the file that the setting names. Throws PlainError; no plan is left out. */
export async function readPlans(settings: DeliverSettings): Promise<readonly ServicePlan[]> {
  const { deliver: path } = settings;
  if (path === null) return [];
  const text = await readText(path, path);
  let entries: unknown;
  try {
    entries = JSON.parse(text);
  } catch {
    throw new PlainError(`${path} is not JSON`);
  }
  if (!Array.isArray(entries) || entries.length > limits.deliverTablesMax)
    throw new PlainError(`${path} is not a JSON array of at most ${limits.deliverTablesMax} objects`);
  const plans: ServicePlan[] = [];
  for (const [at, entry] of entries.entries())
    try {
      plans.push(await planIn(entry, path, settings));
    } catch (error) {
      throw error instanceof PlainError
        ? new PlainError(`${path}, entry ${at + 1}: ${error.message}`)
        : error;
    }
  const tables = plans.map(({ database, name }) => JSON.stringify([database, name.schema, name.table]));
  if (new Set(tables).size < tables.length) throw new PlainError(`${path} has a table twice`);
  return plans;
}

const texts = ['table', 'to', 'secretFile', 'database', 'column', 'idColumn', 'key'] as const;
const numbers = { concurrency: concurrencyMax, attempts: attemptsMax } as const;

async function planIn(entry: unknown, path: string, settings: DeliverSettings): Promise<ServicePlan> {
  if (typeof entry !== 'object' || entry === null || Array.isArray(entry))
    throw new PlainError('it is no object');
  const given = entry as Readonly<Record<string, unknown>>;
  for (const [name, value] of Object.entries(given)) {
    if (isText(name)) {
      if (typeof value !== 'string' || value === '') throw new PlainError(`${name} is no text`);
    } else if (!isNumber(name)) throw new PlainError(`there is no ${JSON.stringify(name)}`);
    else if (!Number.isInteger(value) || Number(value) < 1 || Number(value) > numbers[name])
      throw new PlainError(`${name} is no whole number from 1 to ${numbers[name]}`);
  }
  for (const name of ['table', 'to', 'secretFile'])
    if (given[name] === undefined) throw new PlainError(`${name} is missing`);
  const { table, secretFile, database, ...options } = given as unknown as PlanOptions & {
    readonly table: string;
    readonly secretFile: string;
    readonly database?: string;
  };
  const secret = await readText(resolve(dirname(path), secretFile), secretFile);
  const name = nameOf(table);
  if (name === null) throw new PlainError(`"${table}" is no name of a table`);
  return { ...planOf(table, options, secret, settings), database: database ?? null, name };
}

/** As SQL reads it; without a schema it is in `public`. null: it is no name. */
function nameOf(text: string): ServicePlan['name'] | null {
  const part = String.raw`(?:"((?:[^"\0]|"")+)"|([\p{L}_][\p{L}\p{N}_$]*))`;
  const found = new RegExp(`^${part}(?:\\.${part})?$`, 'u').exec(text);
  if (found === null) return null;
  const [, quoted, plain, quoted2, plain2] = found;
  const first = quoted?.replaceAll('""', '"') ?? plain?.toLowerCase() ?? '';
  const second = quoted2?.replaceAll('""', '"') ?? plain2?.toLowerCase();
  return second === undefined ? { schema: 'public', table: first } : { schema: first, table: second };
}

const isText = (name: string): boolean => (texts as readonly string[]).includes(name);
const isNumber = (name: string): name is keyof typeof numbers => Object.hasOwn(numbers, name);

async function readText(path: string, shown: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    throw new PlainError(`${shown} cannot be read: ${(error as NodeJS.ErrnoException).code ?? 'unknown'}`);
  }
}
