/** How connections of node-postgres to the engine end, whatever state the engine is in, those for one question too, and how much of what it sends is read at once. */
import type { Readable } from 'node:stream';
import { Client } from 'pg';
import type { ClientBase, ClientConfig, Connection } from 'pg';
import { longWork } from '../kit/time-slices.ts';
import { within } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';

/** Ends the connection and, after a short while, its socket: a vanished peer never answers a farewell. */
export async function hangUp(client: Client): Promise<void> {
  client.on('error', () => undefined);
  const ended = client.end().catch(() => undefined);
  await within(limits.engineFarewellMs, ended, undefined);
  cutOff(client);
}

/** A connection for one question: connecting, and each answer, may take `ms`. Rejects as `ask` does, or if there is no connection. */
export async function withClient<T>(
  config: ClientConfig,
  ms: number,
  ask: (client: Client) => Promise<T>,
): Promise<T> {
  const client = new Client({ ...config, connectionTimeoutMillis: ms, query_timeout: ms });
  // A broken connection is reported by the pending query.
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await ask(client);
  } finally {
    await hangUp(client);
  }
}

const cut = new WeakSet<ClientBase>();

/** Destroys the socket at once, without the protocol's farewell, which a hung engine would never read. */
export function cutOff(client: ClientBase): void {
  cut.add(client);
  // node-postgres has no public access to its socket.
  (client as unknown as { connection: { stream: { destroy(): void } } }).connection.stream.destroy();
}

/**
 * Reads no more from the engine until it is this connection's turn. Reading a megabyte of short messages or rows takes Node half a second, in which it serves
 * nobody else; `bytes`: how many it has just read.
 */
export function readInTurn(stream: Readable, bytes: number): void {
  stream.pause();
  void longWork.turn(bytes).then(() => stream.resume());
}

/**
 * For a session in which code of an owner runs: a message that says a gigabyte would be read into memory as a whole. The connection is cut off when
 * the engine has sent more than an answer is, and is not ready for the next query; what is more than `answerAtOnceBytes` is read in turn.
 */
export function boundAnswers(client: ClientBase, bytesMax: number = limits.ownerAnswerBytesMax): void {
  const { connection } = client as unknown as { readonly connection: Connection };
  let bytes = 0;
  connection.on('readyForQuery', () => (bytes = 0));
  connection.stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > bytesMax) cutOff(client);
    else if (bytes > limits.answerAtOnceBytes) readInTurn(connection.stream, chunk.length);
  });
}

/** Whether Headgate has given the connection up, and not the engine or the network. */
export function wasCutOff(client: ClientBase): boolean {
  return cut.has(client);
}
