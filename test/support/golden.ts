/**
 * The answers of an HTTP door, stored in a file: each answer byte for byte, except what differs between any two runs
 * (dates, ids, random seconds). `HEADGATE_GOLDEN=write` rewrites the file.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';

export interface GoldenAnswer {
  readonly status: string;
  /** In lower case and in alphabetical order: neither case nor order is significant. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** By the name of the request. */
export type Golden = Readonly<Record<string, GoldenAnswer>>;

/** Sends bytes on a new connection, and reads one answer. */
export async function answerTo(port: number, bytes: string): Promise<GoldenAnswer> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const isHead = bytes.startsWith('HEAD ');
  const pieces: Buffer[] = [];
  socket.write(bytes, 'latin1');
  try {
    for await (const piece of socket as AsyncIterable<Buffer>) {
      pieces.push(piece);
      const answer = read(Buffer.concat(pieces).toString('latin1'), isHead);
      if (answer !== null) return answer;
    }
  } finally {
    if (!socket.destroyed) {
      socket.destroy();
      await once(socket, 'close');
    }
  }
  throw new Error(`the connection ended before an answer: ${bytes.slice(0, 80)}`);
}

/** null: the answer is incomplete. */
function read(text: string, isHead: boolean): GoldenAnswer | null {
  const end = text.indexOf('\r\n\r\n');
  if (end < 0) return null;
  if (text.startsWith('HTTP/1.1 100 ')) return read(text.slice(end + 4), isHead);
  const [status = '', ...lines] = text.slice(0, end).split('\r\n');
  const raw = text.slice(end + 4);
  const headers = Object.fromEntries(
    lines.map((line) => told(line)).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
  const length = /^content-length: (\d+)$/im.exec(text.slice(0, end))?.[1];
  const isChunked = /^transfer-encoding: chunked$/im.test(text.slice(0, end));
  const has = isHead || status.includes(' 204 ') ? '' : isChunked ? dechunked(raw) : whole(raw, length);
  if (has === null) return null;
  const bytes = Buffer.from(has, 'latin1');
  const body =
    bytes.length > shownBytesMax
      ? `${bytes.length} bytes, SHA-256 ${createHash('sha256').update(bytes).digest('hex')}`
      : bytes.toString('utf8').replace(/"request_id":"[^"]+"/, '"request_id":"…"');
  return { status, headers, body };
}

const shownBytesMax = 100_000;

const changing = /^(date|retry-after|x-request-id)$/;

function told(line: string): readonly [string, string] {
  const colon = line.indexOf(': ');
  const [name, value] = [line.slice(0, colon).toLowerCase(), line.slice(colon + 2)];
  return [name, changing.test(name) && !value.startsWith('given-') ? '…' : value];
}

function whole(raw: string, length: string | undefined): string | null {
  return raw.length < Number(length ?? 0) ? null : raw;
}

function dechunked(raw: string): string | null {
  let body = '';
  for (let at = 0; ;) {
    const line = raw.indexOf('\r\n', at);
    if (line < 0) return null;
    const size = Number.parseInt(raw.slice(at, line), 16);
    if (size === 0) return raw.length >= line + 4 ? body : null;
    if (raw.length < line + 4 + size) return null;
    body += raw.slice(line + 2, line + 2 + size);
    at = line + 4 + size;
  }
}

/** Compares with the file, which must have the same requests. */
export function compareWithGolden(name: string, answers: Golden): void {
  const path = fileURLToPath(new URL(`../../../test/support/golden/${name}.json`, import.meta.url));
  if (process.env['HEADGATE_GOLDEN'] === 'write')
    writeFileSync(path, `${JSON.stringify(answers, null, 2)}\n`);
  const golden = JSON.parse(readFileSync(path, 'utf8')) as Golden;
  assert.deepEqual(
    Object.keys(answers),
    Object.keys(golden),
    'if they are meant to change, HEADGATE_GOLDEN=write npm test -- golden',
  );
  for (const [request, answer] of Object.entries(answers))
    assert.deepEqual(
      answer,
      golden[request],
      `${request}: if it is meant to change, HEADGATE_GOLDEN=write npm test -- golden`,
    );
}
