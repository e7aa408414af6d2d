/**
 * What only some requests of the events gateway need (exchange.ts has the rest): bodies in pieces, compressed bodies, results of SQL, and streams of rows. Takes
 * what the handlers give; refuses a body with `encoding_unsupported`, `malformed_query` and `body_too_large`, and as the HTTP room does.
 */
import { StreamExchange } from '../http/stream-exchange.ts';
import type { OwnHeader } from '../http/plain-answer.ts';
import { limits } from '../config/limits.ts';
import type { Observe } from '../observe/observations.ts';
import { refusal, Refused } from '../errors/refusals.ts';
import { json } from './answers.ts';
import type { GatewayAnswer } from './answers.ts';
import { asBuffers, SlowReader } from './sql-result.ts';
import type { SqlResult } from './sql-result.ts';
import type { StreamChunk } from './streams.ts';

const onlyGzip = refusal(
  'encoding_unsupported',
  'the body may be sent as it is, or with Content-Encoding: gzip',
);

export interface BodyBounds {
  readonly bytesMax: number;
  /** The message for a larger body. */
  readonly tooLarge: string;
}

export abstract class GatewayStreamExchange extends StreamExchange {
  abstract readonly requestId: string;
  protected abstract readonly observe: Observe;
  /** The header with the request's id. */
  protected abstract readonly idHeader: OwnHeader;
  /** Of an answer, with those that all answers have; names and values alternate. `bytes`: of its body; null: they are not counted. */
  protected abstract headersOf(own: GatewayAnswer['headers'], bytes: number | null): string[];
  /** Reports what was answered. */
  protected abstract tell(answered: Pick<GatewayAnswer, 'code' | 'status'>, rows: number): void;

  /** The body as it arrives: the next bytes, or null after the last ones. Throws Refused, and rejects with it. */
  pieces({ bytesMax, tooLarge }: BodyBounds): () => Promise<Buffer | null> {
    const isGzip = this.isGzip();
    const { eventsLineBytesMax: heldBytesMax, eventsPauseMs: pauseMs } = limits;
    const explain = inOurWords(tooLarge);
    try {
      const pieces = this.readPieces({ bytesMax, heldBytesMax, pauseMs, isGzip });
      return () => pieces.next().catch(explain);
    } catch (error) {
      return explain(error);
    }
  }

  /**
   * A small result is sent in one piece, with its length; a large one at its reader's speed. It is held until then; a reader that pauses
   * for `readPauseMs` is cut off.
   */
  answerResult(result: SqlResult, readPauseMs: number): void {
    const type = { 'content-type': json };
    const reader = new SlowReader(this.nodeResponse, result.bytes, readPauseMs);
    if (result.bytes <= limits.eventsLaneBytesMax) {
      const body = Buffer.concat([...asBuffers(result.body())]);
      this.write({ status: 200, headers: this.headersOf(type, body.length), body }, this.idHeader);
    } else {
      const pieces = asBuffers(result.body(), () => reader.goesOn());
      this.writePieces(200, [...this.headersOf(type, null), ...this.idHeader], pieces);
    }
    this.onEnded(() => {
      result.release();
      const code = this.nodeResponse.writableFinished ? 'ok' : 'answer_aborted';
      this.tell({ code, status: 200 }, result.rows);
    });
  }

  /** Each piece is requested once its reader has read the previous ones; a reader that pauses for `readPauseMs` is cut off. */
  async answerStream(type: string, pieces: AsyncIterable<StreamChunk>, readPauseMs: number): Promise<void> {
    const { requestId, remoteAddress } = this;
    this.observe({ kind: 'stream.opened', requestId, remoteAddress });
    let rows = 0;
    this.onEnded(() => this.tell({ code: 'ok', status: 200 }, rows));
    const headers = {
      'content-type': type,
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      // The URL may hold a token.
      'referrer-policy': 'no-referrer',
    };
    const write = this.writeOn(200, [...this.headersOf(headers, null), ...this.idHeader], readPauseMs);
    for await (const { frame, rows: more } of pieces) {
      if (!(await write(frame))) return;
      rows += more;
    }
    await write(null);
  }

  /** Throws Refused for an unsupported encoding. */
  protected isGzip(): boolean {
    // A request received as a whole has no encoding.
    const encoding = this.arriving === null ? '' : (this.one('content-encoding') ?? '').trim().toLowerCase();
    if (encoding === 'gzip' || encoding === 'x-gzip') return true;
    if (encoding === '' || encoding === 'identity') return false;
    throw new Refused(onlyGzip);
  }
}

/** Rewords refusals of the HTTP room for a client of the gateway. */
export function inOurWords(tooLarge: string): (error: unknown) => never {
  return (error) => {
    const code = error instanceof Refused ? error.refusal.code : null;
    if (code === 'malformed_encoding') throw new Refused('malformed_query', 'the body is not valid gzip');
    throw code === 'body_too_large' ? new Refused(code, tooLarge) : error;
  };
}
