/**
 * An exchange whose request or answer may be too large to be held, or may have no end of its own. Takes what an exchange takes; gives the body in pieces,
 * and writes answers at the speed of their readers. Refuses a body as body-stream.ts does.
 */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Refusal } from '../errors/refusals.ts';
import type { BodyPieces, PiecesRules } from './body-stream.ts';
import { Exchange } from './exchange.ts';
import { writeHead } from './node-answer.ts';
import { FastAnswer } from './plain-answer.ts';

export abstract class StreamExchange extends Exchange {
  /** For what only requests have that Node's parser has read. */
  protected get nodeResponse(): ServerResponse {
    if (!(this.response instanceof FastAnswer)) return this.response;
    throw new Error('a request that came as a whole is answered in one piece');
  }

  /** The answer will end the connection, and no request that follows is read. Must be called when the request is begun. */
  closeAfterAnswer(): void {
    this.closes = true;
    this.connection.parser.stopParsing();
  }

  /** The body as it arrives. Called at most once, instead of `readBody`, for one that is large or compressed; throws Refused. */
  protected readPieces(rules: PiecesRules): BodyPieces {
    if (this.arriving === null) throw new Error('a request that came as a whole is read as a whole');
    return this.arriving.pieces(rules);
  }

  /**
   * Reads and drops what a sender is still sending, within bounds: it may not read the answer before it has sent everything.
   * If the rest has not arrived by then, the connection is closed after the answer. Resolves with the reason why the request can
   * only be refused now; null: there is none.
   */
  protected async readAway(): Promise<Refusal | null> {
    await this.arriving?.drop();
    this.closes ||= !this.request.complete;
    return this.arriving?.failure ?? null;
  }

  /** Releases whatever the request held, and answers with a body that is sent as fast as its reader reads. */
  protected writePieces(status: number, headers: readonly string[], pieces: Iterable<Buffer>): void {
    if (!this.beginAnswer()) return;
    const response = this.nodeResponse;
    writeHead(response, status, headers, this.decideOnClosing());
    const source = Readable.from(pieces);
    // The end of the connection tells a partial answer from a whole one.
    source.on('error', () => response.destroy());
    source.pipe(response);
  }

  /**
   * The same for a body that has no end of its own: the returned function writes a piece, or the end (null), and resolves when there is
   * room for another one; with false if nobody reads it any more, or its reader has read nothing for `pauseMs`.
   */
  protected writeOn(
    status: number,
    headers: readonly string[],
    pauseMs: number,
  ): (piece: Buffer | null) => Promise<boolean> {
    if (!this.beginAnswer()) return async () => false;
    const response = this.nodeResponse;
    writeHead(response, status, headers, this.decideOnClosing());
    return async (piece) => {
      if (response.destroyed || this.hasEnded) return false;
      if (piece === null) response.end();
      else if (!response.write(piece)) await drained(response, pauseMs);
      return !response.destroyed;
    };
  }
}

/** Resolves when the response takes more, or is closed; closes it after `pauseMs`. */
function drained(response: ServerResponse, pauseMs: number): Promise<void> {
  const timer = setTimeout(() => response.destroy(), pauseMs);
  return new Promise((resolve) => {
    const settle = (): void => {
      clearTimeout(timer);
      response.off('drain', settle).off('close', settle);
      resolve();
    };
    response.on('drain', settle).on('close', settle);
  });
}
