/**
 * Answers of the events gateway through Fastify. Takes an answer, an object or pieces of a result, gives them to Fastify's
 * reply with the headers that go with them. Decides nothing.
 */
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { limits } from '../limits.ts';
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

/** A small result leaves in one piece, with its length; a large one as fast as its reader reads. */
export function sendPieces(
  reply: FastifyReply,
  pieces: Iterable<string | Buffer>,
  bytes: number,
): FastifyReply {
  reply.header('content-type', json);
  if (bytes > limits.eventsLaneBytesMax) return reply.send(Readable.from(asBuffers(pieces)));
  return reply.send(Buffer.concat([...asBuffers(pieces)]));
}

function* asBuffers(pieces: Iterable<string | Buffer>): Iterable<Buffer> {
  for (const piece of pieces) yield typeof piece === 'string' ? Buffer.from(piece, 'utf8') : piece;
}
