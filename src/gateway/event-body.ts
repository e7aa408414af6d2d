/**
 * The body of POST /v1/events: one JSON object, possibly over several lines, or one object per line (NDJSON). The first
 * line tells which of the two it is, not the Content-Type, which `curl -d` sets to that of a form. Takes pieces, returns
 * Rows, of a small body at once and of a large one in chunks; refuses with `event_not_object` and as decode does.
 * Holds at most `eventsLaneBytesMax` of a body, a chunk and a line.
 */
import type { Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { Gathered } from '../kit/gathered-bytes.ts';
import { freeStore } from '../kit/free-buffer.ts';
import { limits } from '../config/limits.ts';
import { Refused } from '../errors/refusals.ts';
import { decodeGoodLines, decodeLines, decodeObject } from '../decode/event-rows.ts';
import { scanJson } from '../decode/json-scan.ts';
import { LineSplitter } from '../decode/line-splitter.ts';
import type { Lines } from '../decode/line-splitter.ts';
import { asLineRefused, reasonOf } from './line-refused.ts';
import type { Skipped } from './skipped-lines.ts';

/** The source of a body; throws Refused. */
export interface BodySource {
  /** The whole body; null: it may be large, or longer than it appears, and `next` returns it piece by piece. */
  readonly whole: (() => Buffer | Promise<Buffer>) | null;
  /** The next bytes, or null after the last ones. */
  next(): Promise<Buffer | null>;
}

/** What a text is on its own: a document, the beginning of one, or neither. */
function opening(text: Buffer): 'whole' | 'open' | 'broken' {
  const problem = scanJson(text, { depthMax: limits.jsonDepthMax });
  if (problem === null) return 'whole';
  return problem.offset !== null && problem.offset >= text.length ? 'open' : 'broken';
}

export class EventBody {
  readonly #source: BodySource;
  /** The part already read of a body that turned out to be large. */
  #head: Buffer | null = null;

  constructor(source: BodySource) {
    this.#source = source;
  }

  /** The whole body if it is small; null: it is large, and `chunks` returns it. */
  small(): Buffer | Promise<Buffer | null> {
    const whole = this.#source.whole?.();
    if (whole === undefined) return this.#begin();
    return whole instanceof Promise ? whole.then(refuseOther) : refuseOther(whole);
  }

  async #begin(): Promise<Buffer | null> {
    const { bytes, ended } = await collect(this.#source, [], limits.eventsLaneBytesMax);
    // Blanks may come before the events, as many as there are.
    if (ended || firstByte(bytes) < bytes.length) refuseOther(bytes);
    if (ended) return bytes;
    this.#head = bytes;
    return null;
  }

  /** The same body, for `chunks`. */
  again(body: Buffer): EventBody {
    const it = new EventBody({ whole: null, next: () => Promise.resolve(null) });
    it.#head = body;
    return it;
  }

  /** null: no line was valid. */
  decodeSmall(target: Target, body: Buffer, skipped: Skipped | null): Rows | null {
    const block = { bytes: body, firstLine: 1 };
    if (skipped !== null)
      return this.#isObject(body) ? this.#object(target, body, skipped) : this.#lines(target, block, skipped);
    // Try lines first: a body that parses as lines is not one object over several of them, so nearly all bodies are read
    // once.
    try {
      return this.#lines(target, block, null);
    } catch (error) {
      if (this.#isObject(body)) return this.#object(target, body, null);
      throw error;
    }
  }

  /** The rows of a large body, chunk by chunk. The consumer owns their memory, and may free it. */
  async *chunks(target: Target, skipped: Skipped | null): AsyncGenerator<Rows> {
    let head = this.#head ?? Buffer.of();
    this.#head = null;
    let ended = false;
    let isEmpty = skipped === null;
    if (opening(firstLine(head)) === 'open') {
      // One object over several lines must be held whole.
      ({ bytes: head, ended } = await collect(this.#source, [head], limits.eventsLineBytesMax));
      if (ended && this.#isObject(head)) {
        const rows = this.#object(target, head, skipped);
        if (rows !== null) yield rows;
        return;
      }
    }
    if (firstByte(head) < head.length) refuseOther(head);
    const splitter = new LineSplitter(limits.eventsLineBytesMax);
    for (let chunk = head; ;) {
      const block = splitter.push(chunk);
      const rows = block === null ? null : this.#linesOfBlock(target, block, skipped);
      if (rows !== null) {
        isEmpty = false;
        yield rows;
      }
      if (ended) break;
      ({ bytes: chunk, ended } = await collect(this.#source, [], limits.eventsChunkBytesMax));
    }
    const last = splitter.end();
    const rows = last === null ? null : this.#linesOfBlock(target, last, skipped);
    if (rows !== null) yield rows;
    else if (isEmpty) throw new Refused('event_not_object', noEvent);
  }

  /** Consumes the block: its memory is reused by the rows, or freed. */
  #linesOfBlock(target: Target, block: Lines, skipped: Skipped | null): Rows | null {
    const rows = this.#lines(target, block, skipped);
    if (rows?.documents.bytes.buffer !== block.bytes.buffer) freeStore(block.bytes);
    return rows;
  }

  /** Whether the first line is no document, but the whole body is. */
  #isObject(body: Buffer): boolean {
    const line = firstLine(body);
    const kind = opening(line);
    if (kind === 'whole') return false;
    return kind === 'open' && line.length < body.length && opening(body) === 'whole';
  }

  #object(target: Target, body: Buffer, skipped: Skipped | null): Rows | null {
    try {
      return decodeObject(target, body, limits.eventsDeadlineMs);
    } catch (error) {
      if (skipped === null || !(error instanceof Refused)) throw asLineRefused(error);
      skipped.add(1, reasonOf(error.refusal.message));
      return null;
    }
  }

  #lines(target: Target, block: Lines, skipped: Skipped | null): Rows | null {
    const { bytes, firstLine } = block;
    if (skipped === null) {
      try {
        const rows = decodeLines(target, bytes, limits.eventsDeadlineMs, firstLine);
        return rows.count === 0 ? null : rows;
      } catch (error) {
        throw asLineRefused(error);
      }
    }
    const good = decodeGoodLines(target, bytes, limits.eventsDeadlineMs, firstLine);
    for (const { line, reason } of good.skipped) skipped.add(line, reason);
    skipped.addMore(good.skippedCount - good.skipped.length);
    return good.rows.count === 0 ? null : good.rows;
  }
}

/** Reads on after `begun` until there are more than `bytesMax`, or the body ends. */
async function collect(
  source: BodySource,
  begun: readonly Buffer[],
  bytesMax: number,
): Promise<{ bytes: Buffer; ended: boolean }> {
  const gathered = new Gathered();
  for (const piece of begun) gathered.add(piece);
  while (gathered.length <= bytesMax) {
    const piece = await source.next();
    if (piece === null) return { bytes: gathered.done(), ended: true };
    gathered.add(piece);
  }
  return { bytes: gathered.done(), ended: false };
}

const noEvent = 'the body holds no event';

const isBlank = (byte: number | undefined): boolean =>
  byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;

function firstByte(body: Buffer): number {
  let at = 0;
  while (isBlank(body[at])) at++;
  return at;
}

/** From the first byte that is not blank to the end of its line. */
function firstLine(body: Buffer): Buffer {
  const start = firstByte(body);
  const end = body.indexOf(10, start);
  return body.subarray(start, end < 0 ? body.length : end);
}

/** Bodies sent by mistake instead of NDJSON, with a sentence that helps. */
function refuseOther(body: Buffer): Buffer {
  const first = body[firstByte(body)];
  if (first === undefined) throw new Refused('event_not_object', noEvent);
  if (first !== 0x5b) return body;
  throw new Refused(
    'event_not_object',
    'the body is a JSON array: send its items as one JSON object a line (NDJSON), without brackets and commas',
  );
}
