/**
 * Compares the recogniser with Node's own parser (llhttp), on nearly valid requests. Whatever the recogniser accepts, the parser
 * reads in the same way: method, target, header lines, body, whether the connection stays open, where the next request begins.
 * The recogniser does not accept what the parser refuses. And it does not matter where the bytes were split.
 */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { WholeRequest } from '../../src/http/plain-request.ts';
import { doubtful, more, PlainRequestParser } from '../../src/http/plain-request-parser.ts';
import { limits } from '../../src/config/limits.ts';
import type { Random } from './fuzz.ts';
import { mutate, pick } from './fuzz.ts';

interface Read {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly body: string;
  readonly closes: boolean;
}

/** Node's binding of llhttp, as node:http uses it. */
interface Parser {
  initialize(type: number, resource: object, headerBytesMax: number, lenient: number): void;
  execute(bytes: Buffer): number | Error;
  free(): void;
  [callback: number]: (...given: never[]) => unknown;
}
const events = ['kOnHeaders', 'kOnHeadersComplete', 'kOnBody', 'kOnMessageComplete'] as const;
const { HTTPParser, methods } = createRequire(import.meta.url)('_http_common') as {
  HTTPParser: (new () => Parser) & {
    readonly [name in 'REQUEST' | 'kLenientNone' | (typeof events)[number]]: number;
  };
  methods: readonly string[];
};

const parser = new HTTPParser();
let read: Read[] = [];
let rawHeaders: string[] = [];
let url = '';
let head: { method: string; target: string; rawHeaders: string[]; closes: boolean } | null = null;
let body = '';
parser[HTTPParser.kOnHeaders] = (headers: string[], part: string) => {
  rawHeaders.push(...headers);
  url += part;
};
parser[HTTPParser.kOnHeadersComplete] = (
  major: number,
  minor: number,
  headers: string[] | undefined,
  method: number,
  target: string | undefined,
  _status: unknown,
  _message: unknown,
  upgrade: boolean,
  keepsAlive: boolean,
) => {
  const closes = !keepsAlive;
  // Requests that the recogniser never accepts get a method that it never returns.
  const name = `${methods[method]}${major === 1 && minor === 1 && !upgrade ? '' : '?'}`;
  head = {
    method: name,
    target: url + (target ?? ''),
    rawHeaders: [...rawHeaders, ...(headers ?? [])],
    closes,
  };
  [rawHeaders, url, body] = [[], '', ''];
  return 0;
};
parser[HTTPParser.kOnBody] = (piece: Buffer) => void (body += piece.toString('latin1'));
parser[HTTPParser.kOnMessageComplete] = () => {
  if (head !== null) read.push({ ...head, body });
};

/** The complete requests in the bytes, up to the first error. */
function parsed(pieces: readonly Buffer[]): Read[] {
  [read, rawHeaders, url, head, body] = [[], [], '', null, ''];
  parser.initialize(HTTPParser.REQUEST, {}, limits.headersBytesMax, HTTPParser.kLenientNone);
  for (const piece of pieces) if (typeof parser.execute(piece) !== 'number') break;
  return read;
}

const recogniser = new PlainRequestParser({
  prefixes: ['/webhook/'],
  headBytesMax: limits.fastHeadBytesMax,
  targetBytesMax: limits.targetBytesMax,
  linesMax: limits.headersCountMax,
  bodyBytesMax: limits.fastBodyBytesMax,
});

/** The accepted requests, one after the other, and how each head was read when it was cut off at some point. */
function recognised(bytes: Buffer, cuts: (from: number, to: number) => Iterable<number>): Read[] {
  const all: Read[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = recogniser.read(bytes, at);
    const whole = length + recogniser.bodyBytes;
    const end = length === doubtful || length === more ? bytes.length : at + length;
    const request =
      length === doubtful || length === more || at + whole > bytes.length
        ? null
        : new WholeRequest(bytes.subarray(at), recogniser);
    let before = more;
    for (const cut of cuts(at + 1, end)) {
      const so = recogniser.read(bytes.subarray(0, cut), at);
      const fits = length === doubtful ? so === doubtful || so === before : so === more;
      assert.ok(fits, `cut off at ${cut} it is ${so}`);
      before = so;
    }
    if (request === null) break;
    const { method, url: target, rawHeaders: lines, closes } = request;
    all.push({ method, target, rawHeaders: lines, body: request.body.toString('latin1'), closes });
    if (closes) break;
    at += whole;
  }
  return all;
}

const names = [
  'Host', 'host', 'Content-Length', 'content-length', 'Content-Type', 'X-Hub-Signature-256', 'User-Agent', 'Accept', 'Connection',
  'connection', 'Transfer-Encoding', 'Content-Encoding', 'Expect', 'Upgrade', 'Proxy-Connection', 'Keep-Alive', 'Trailer', 'TE',
  'Cookie', 'X', 'Stripe-Signature', 'X-Forwarded-For', 'HTTP2-Settings', 'Authorization', 'Content_Length', 'Content-Length ',
  ' Host', 'X y', 'Transfer-Encoding\t', '', '"', 'x!#$%&\'*+-.^_`|~9', 'POST / HTTP/1.1', 'Content-MD5',
]; // prettier-ignore
const values = [
  'h', 'example.org:4560', '2', '02', '+2', '2, 2', '2 ', '0', '5', '64', '99999999999', '0x2', '1e1', '-1', 'application/json', 'close', 'Close',
  'keep-alive', 'Keep-Alive', 'keep-alive, close', 'upgrade', 'chunked', 'identity', 'gzip', '100-continue', 'websocket', 'h2c', '',
  't=1492774577,v1=5257a869e7ecebeda32affa62cdca3fa51cad7e77a0e56ff536d0ce8e108d8bd', 'a\tb', 'é', '\x00', '\x7f', 'a\rb', 'a\r\n b',
  'sha256=92a73d1a6e0e8d1e69dfd4eb341e9bacf19d6f094da29f9e9da6f7b5f0d58e14', 'GitHub-Hookshot/6b5a1e5', '*/*', '\x0b', 'a\nb',
]; // prettier-ignore
const starts = [
  'POST /webhook/dev/public/t HTTP/1.1', 'POST /webhook/dev/public/t?a=b%20c&d HTTP/1.1', 'GET /webhook/dev/public/t HTTP/1.1',
  'POST /webhook/dev/public/t HTTP/1.0', 'POST /webhook/dev/public/t HTTP/2.0', 'POST  /webhook/t HTTP/1.1', 'POST /webhook/é HTTP/1.1',
  'POST /webhook/t  HTTP/1.1', 'POST /webhook/t#a HTTP/1.1', 'post /webhook/t HTTP/1.1', 'POST http://h/webhook/t HTTP/1.1',
  'POST /webhook/t HTTP/1.1 ', 'POST /webhook/t', '\r\nPOST /webhook/t HTTP/1.1', 'POST /webhook/"<>\\^`{|} HTTP/1.1',
]; // prettier-ignore

const often = <T>(random: Random, usual: T, of: readonly T[], share: number): T =>
  random() < share ? usual : pick(random, of);

function made(random: Random): string {
  const end = () => often(random, '\r\n', ['\n', '\r', '\r\r\n', '\n\r', '\r\n\r\n', ''], 0.995);
  const body = 'x'.repeat(often(random, 2, [0, 1, 5, 64], 0.6));
  const lines = [
    `Host:${often(random, ' ', ['', '  ', '\t'], 0.8)}h`,
    `Content-Length: ${often(random, String(body.length), values, 0.95)}`,
    ...Array.from({ length: Math.floor(random() * 6) }, () => {
      const usual = random() < 0.7;
      const name = usual
        ? pick(random, ['X-A', 'Content-Type', 'User-Agent', 'Accept'])
        : pick(random, names);
      const value = usual ? pick(random, ['a/b', '*/*', 'x y', 'a\tb', '"q"']) : pick(random, values);
      return `${name}:${often(random, ' ', ['', '\t', '  '], 0.8)}${value}`;
    }),
  ];
  lines.sort(() => random() - 0.5);
  if (random() < 0.02) lines.pop();
  return `${often(random, starts[0] ?? '', starts, 0.85)}${[...lines, ''].map((line) => end() + line).join('')}${end()}${body}`;
}

/** One to three requests, half of them with bytes changed at random. */
function bytesOf(random: Random): Buffer {
  const text = Array.from({ length: 1 + Math.floor(random() ** 3 * 3) }, () => made(random)).join('');
  const bytes = Buffer.from(text, 'latin1');
  return random() < 0.5 ? bytes : mutate(random, bytes);
}

/** Returns the number of accepted requests. Throws for the first one that is read in two ways, with its bytes. */
export function fuzzRequests(count: number, random: Random): number {
  let accepted = 0;
  for (let i = 0; i < count; i++) {
    const bytes = bytesOf(random);
    const everywhere = i % 32 === 0;
    const cut = Math.floor(random() * (bytes.length + 1));
    const cuts = everywhere
      ? (from: number, to: number) => Array.from({ length: Math.max(0, to - from) }, (_, n) => from + n)
      : (from: number, to: number) => (cut >= from && cut < to ? [cut] : []);
    try {
      const ours = recognised(bytes, cuts);
      accepted += ours.length;
      const pieces = i % 4 === 0 ? [bytes.subarray(0, cut), bytes.subarray(cut)] : [bytes];
      const theirs = parsed(pieces.filter(({ length }) => length > 0));
      if (ours.length > 0) assert.deepEqual(ours, theirs.slice(0, ours.length));
    } catch (cause) {
      throw new Error(`read in two ways: ${JSON.stringify(bytes.toString('latin1'))}`, { cause });
    }
  }
  return accepted;
}
