/**
 * Answers of the events gateway. Takes a refusal, an SQL error or pieces of a result, gives them to Fastify's reply with
 * the headers that go with them. Decides nothing.
 */
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { limits } from '../limits.ts';
import { refusals } from '../refusals.ts';
import type { Refusal, SqlError } from '../refusals.ts';
import { isTransient } from './sql-sessions.ts';

const json = 'application/json; charset=utf-8';

/** `more`: further members of the answer, e.g. the lines at fault. */
export function sendRefusal(
  reply: FastifyReply,
  { code, message, retryAfterSeconds }: Refusal,
  more: Readonly<Record<string, unknown>> = {},
): FastifyReply {
  const { status } = refusals[code];
  reply.code(status).header('content-type', json);
  if (status === 503 || status === 429) reply.header('retry-after', retryAfter(retryAfterSeconds));
  if (status === 401) reply.header('www-authenticate', 'Bearer realm="headgate"');
  if (status === 405) reply.header('allow', 'POST');
  return reply.send(Buffer.from(JSON.stringify({ error: message, code, ...more })));
}

/** Where it is not known, spread, so that many senders do not return together. */
export function retryAfter(seconds?: number): string {
  return String(seconds ?? 1 + Math.floor(Math.random() * limits.retryAfterSecondsMax));
}

export function sendSqlError(reply: FastifyReply, error: SqlError): FastifyReply {
  const { sqlstate, message, position, detail, hint } = error;
  const again = isTransient(sqlstate);
  reply.code(again ? 503 : 400).header('content-type', json);
  if (again) reply.header('retry-after', retryAfter());
  return reply.send(Buffer.from(JSON.stringify({ error: message, code: sqlstate, position, detail, hint })));
}

export function sendObject(reply: FastifyReply, value: unknown): FastifyReply {
  return reply.header('content-type', json).send(Buffer.from(JSON.stringify(value)));
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
