/**
 * Answers of the events gateway through Fastify. Takes an answer, an object or pieces of a result, gives them to Fastify's
 * reply with the headers that go with them. Decides nothing.
 */
import type { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { limits } from '../tables/limits.ts';
import { json } from './answers.ts';
import type { Answer } from './answers.ts';

export function sendAnswer(reply: FastifyReply, { status, headers, text }: Answer): FastifyReply {
  return reply.code(status).headers(headers).send(text);
}

export function sendObject(reply: FastifyReply, value: unknown): FastifyReply {
  return sendJson(reply, JSON.stringify(value));
}

export function sendJson(reply: FastifyReply, text: string): FastifyReply {
  return reply.header('content-type', json).send(text);
}

export interface Sending {
  readonly bytes: number;
  /** How long its reader may read nothing, in ms. */
  readonly readPauseMs: number;
}

/**
 * A small result leaves in one piece, with its length; a large one as fast as its reader reads. Who reads nothing for a
 * while, or too slowly on the whole, is cut off: a result is held until it is read.
 */
export function sendPieces(
  reply: FastifyReply,
  pieces: Iterable<string | Buffer>,
  { bytes, readPauseMs }: Sending,
): FastifyReply {
  reply.header('content-type', json);
  const reading = new Reading(reply.raw, bytes, readPauseMs);
  if (bytes <= limits.eventsLaneBytesMax) return reply.send(Buffer.concat([...asBuffers(pieces)]));
  return reply.send(Readable.from(asBuffers(pieces, () => reading.goesOn())));
}

class Reading {
  readonly #response: ServerResponse;
  readonly #pauseMs: number;
  readonly #wholeMs: number;
  #pause: NodeJS.Timeout | null = null;

  constructor(response: ServerResponse, bytes: number, pauseMs: number) {
    this.#response = response;
    this.#pauseMs = pauseMs;
    this.#wholeMs = pauseMs + (bytes / limits.gatewayReadBytesPerSecondMin) * 1_000;
    // Of several on one connection the answers before it are read first.
    if (response.socket === null) response.once('socket', () => this.#begin());
    else this.#begin();
  }

  /** Another piece is wanted. */
  goesOn(): void {
    this.#pause?.refresh();
  }

  #begin(): void {
    const response = this.#response;
    if (response.destroyed) return;
    const cut = (): void => void response.destroy();
    const pause = setTimeout(cut, this.#pauseMs);
    const whole = setTimeout(cut, this.#wholeMs);
    this.#pause = pause;
    response.once('close', () => {
      clearTimeout(pause);
      clearTimeout(whole);
    });
  }
}

function* asBuffers(pieces: Iterable<string | Buffer>, goesOn: () => void = () => {}): Iterable<Buffer> {
  for (const piece of pieces) {
    goesOn();
    yield typeof piece === 'string' ? Buffer.from(piece, 'utf8') : piece;
  }
}
