/**
 * The console: a web page for people, and its API. Takes requests whose path begins with `/console` and leaves all others;
 * serves the page's files, and answers in JSON under `/console/api/`. Refuses with `misdirected`, `login_required`,
 * `login_failed`, `login_rate`, `foreign_page`, `body_too_large`, `malformed_request`, `method_not_allowed`, `not_found`,
 * `overloaded`, and with the engine's own errors. Touches the database only as the role that has logged in
 * (docs/decisions/0096).
 */
import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { limits } from '../config/limits.ts';
import type { TailSource } from '../observe/tail.ts';
import type { Observe } from '../observe/observations.ts';
import { Refused, refusal } from '../errors/refusals.ts';
import { ConsoleApi } from './api-routes.ts';
import type { ConsoleAnswers } from './api-routes.ts';
import { guardHeaders, noStore, writeRefusal } from './headers.ts';
import { ConsoleSessions } from './sessions.ts';
import type { SqlDoorAt, SqlRunner } from './request-sessions.ts';
import { isLoopbackHost } from '../kit/address.ts';

export interface ConsoleOptions {
  /** The folder with the page's files. */
  readonly folder: string;
  /** Further host names under which it may be called, besides those of loopback. */
  readonly hosts: readonly string[];
  /** A link logs in as this role, without a password; null: role and password are required. */
  readonly linkRole: string | null;
  readonly database: string;
  readonly door: () => SqlDoorAt;
  readonly tail: TailSource;
  readonly answers: ConsoleAnswers;
  /** A client that presents this text may do what the owner of the data directory may. */
  readonly ownerKey: string;
  /** A monotonic clock, ms. */
  readonly clock: () => number;
  readonly observe: Observe;
}

export interface Console {
  /** Returns whether the request is the console's; never throws. */
  handle(request: IncomingMessage, response: ServerResponse): boolean;
  /** What follows `/console/` in a one-time link; '': role and password are required. */
  link(): string;
  close(): void;
}

/** Rejects if the page was not built. */
export async function openConsole(options: ConsoleOptions): Promise<Console> {
  return new TheConsole(options, await readAssets(options.folder));
}

const prefix = '/console';

class TheConsole implements Console {
  readonly #options: ConsoleOptions;
  readonly #assets: Assets;
  readonly #sessions = new ConsoleSessions<SqlRunner | null>((runner) => runner?.close());
  readonly #api: ConsoleApi;
  readonly #sweeping: NodeJS.Timeout;

  constructor(options: ConsoleOptions, assets: Assets) {
    this.#options = options;
    this.#assets = assets;
    const ownerKey = digest(options.ownerKey);
    this.#api = new ConsoleApi({
      ...options,
      sessions: this.#sessions,
      isOwner: (key) => timingSafeEqual(digest(key), ownerKey),
      link: () => this.link(),
    });
    this.#sweeping = setInterval(() => this.#sessions.sweep(options.clock()), limits.consoleConnectionIdleMs);
    this.#sweeping.unref();
  }

  handle(request: IncomingMessage, response: ServerResponse): boolean {
    const [path = ''] = (request.url ?? '').split('?');
    if (path !== prefix && !path.startsWith(`${prefix}/`)) return false;
    void this.#serve(path.slice(prefix.length), request, response).catch((error: unknown) => {
      if (!(error instanceof Refused))
        this.#options.observe({ kind: 'request.failed', requestId: randomUUID(), error });
      if (response.headersSent) response.destroy();
      else writeRefusal(response, error instanceof Refused ? error.refusal : refusal('internal'));
    });
    return true;
  }

  link(): string {
    const { linkRole, clock } = this.#options;
    return linkRole === null ? '' : `#t=${this.#sessions.links.make(clock())}`;
  }

  close(): void {
    clearInterval(this.#sweeping);
    this.#sessions.close();
  }

  async #serve(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!isOwnHost(request.headers.host, this.#options.hosts)) throw new Refused('misdirected');
    if (path.startsWith('/api/')) return this.#api.serve(path.slice('/api/'.length), request, response);
    if (request.method !== 'GET' && request.method !== 'HEAD')
      throw new Refused('method_not_allowed', 'only GET and HEAD are allowed here');
    if (path === '') return void response.writeHead(308, { ...noStore, location: `${prefix}/` }).end();
    const asset = this.#assets.get(path === '/' ? 'index.html' : path.slice(1));
    if (asset === undefined) throw new Refused('not_found', 'the console has no such page');
    writeAsset(request, response, asset);
  }
}

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/**
 * Whether the console may be called under this host name. A page of another site whose name was pointed at this machine
 * (DNS rebinding) sends that name in `Host`, whatever the browser believes about origins. `more`: names besides those of loopback, with or
 * without port. Pure.
 */
export function isOwnHost(host: string | undefined, more: readonly string[]): boolean {
  if (host === undefined) return false;
  const named = /^(\[[0-9a-f:.]+\]|[^:[\]/@\s]+)(?::\d{1,5})?$/i.exec(host)?.[1]?.toLowerCase();
  if (named === undefined) return false;
  if (isLoopbackHost(named.replace(/^\[(.*)\]$/, '$1'))) return true;
  return more.some((it) => [named, host.toLowerCase()].includes(it.toLowerCase()));
}

/**
 * The files of the page: a fixed map of paths to bytes, read once when the console opens; no request path ever leads to the file system. Browsers cache
 * files with a hash in their name indefinitely; the page itself is requested each time and answered 304 if unchanged.
 */
interface Asset {
  readonly bytes: Buffer;
  readonly br: Buffer | null;
  readonly gz: Buffer | null;
  readonly type: string;
  readonly etag: string;
  readonly forever: boolean;
}

type Assets = ReadonlyMap<string, Asset>;

const types: ReadonlyMap<string, string> = new Map([
  ['html', 'text/html; charset=utf-8'],
  ['js', 'text/javascript; charset=utf-8'],
  ['css', 'text/css; charset=utf-8'],
  ['svg', 'image/svg+xml'],
]);

/** By name. Rejects if the page was not built. */
async function readAssets(folder: string): Promise<Assets> {
  const names = new Set(await readdir(folder));
  const assets = new Map<string, Asset>();
  for (const name of names) {
    const type = types.get(name.split('.').at(-1) ?? '');
    if (type === undefined) continue;
    const read = (ending: string) =>
      names.has(name + ending) ? readFile(join(folder, name + ending)) : null;
    const bytes = await readFile(join(folder, name));
    const etag = `"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
    const forever = /-[A-Z0-9]{8}\.(js|css)$/.test(name);
    assets.set(name, { bytes, br: await read('.br'), gz: await read('.gz'), type, etag, forever });
  }
  if (!assets.has('index.html')) throw new Error(`the page of the console is not in ${folder}`);
  return assets;
}

function writeAsset(request: IncomingMessage, response: ServerResponse, asset: Asset): void {
  const { bytes, br, gz, type, forever } = asset;
  const accepted = codingsOf(request.headers['accept-encoding']);
  const [coding, body] =
    br !== null && accepted.has('br')
      ? ['br', br]
      : gz !== null && accepted.has('gzip')
        ? ['gzip', gz]
        : [null, bytes];
  // Each coding is another representation, and has its own tag.
  const etag = coding === null ? asset.etag : asset.etag.replace(/"$/, `-${coding}"`);
  const headers = {
    ...guardHeaders,
    'cache-control': forever ? 'public, max-age=31536000, immutable' : 'no-cache',
    etag,
    vary: 'Accept-Encoding',
  };
  if (request.headers['if-none-match'] === etag) return void response.writeHead(304, headers).end();
  response.writeHead(200, {
    ...headers,
    'content-type': type,
    'content-length': body.length,
    ...(coding === null ? {} : { 'content-encoding': coding }),
  });
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** Those not refused by a weight of 0. */
function codingsOf(header: string | string[] | undefined): ReadonlySet<string> {
  const words = String(header ?? '')
    .toLowerCase()
    .split(',');
  return new Set(
    words.filter((word) => !/;\s*q=0(\.0*)?\s*$/.test(word)).map((word) => (word.split(';')[0] ?? '').trim()),
  );
}
