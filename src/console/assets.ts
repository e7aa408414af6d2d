/**
 * The files of the page: a fixed map of paths to bytes, read once when the console opens. Takes a folder, answers
 * requests; no request path ever leads to the file system. Browsers cache files with a hash in their name indefinitely;
 * the page itself is requested each time and answered 304 if unchanged.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import { guardHeaders } from './headers.ts';

interface Asset {
  readonly bytes: Buffer;
  readonly br: Buffer | null;
  readonly gz: Buffer | null;
  readonly type: string;
  readonly etag: string;
  readonly forever: boolean;
}

export type Assets = ReadonlyMap<string, Asset>;

const types: ReadonlyMap<string, string> = new Map([
  ['html', 'text/html; charset=utf-8'],
  ['js', 'text/javascript; charset=utf-8'],
  ['css', 'text/css; charset=utf-8'],
  ['svg', 'image/svg+xml'],
]);

/** By name. Rejects if the page was not built. */
export async function readAssets(folder: string): Promise<Assets> {
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

export function writeAsset(request: IncomingMessage, response: ServerResponse, asset: Asset): void {
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
