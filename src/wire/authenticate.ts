/**
 * Asks a client of the SQL door for its password, for an engine that trusts whoever reaches its socket. Takes the client,
 * the name it gave and where verifiers are kept; returns what the client has sent after its proof, or the reason to refuse
 * it: 28P01 for a wrong password, and in the same words for a name that does not exist; 08P01 for messages that are not
 * SCRAM; 57P03 while verifiers cannot be read. Rejects if the client leaves. `moved` is called for each of its messages; `turn` before a
 * password is looked at, and may refuse it.
 */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import { ProtocolViolation } from './framing.ts';
import { type FatalReason, fromClient, message, readStrings } from './messages.ts';
import { readUntil } from './startup.ts';
import { beginScram, nobodysVerifier, scramMechanism, ScramViolation } from './scram.ts';
import type { ScramVerifier } from './scram.ts';

export interface Passwords {
  /** null: the role does not exist, or cannot log in by password. Rejects while that cannot be determined. */
  verifier(user: string): Promise<ScramVerifier | null>;
  /** Secret, and the same after every restart: the challenge for names that do not exist is derived from it. */
  readonly key: Buffer;
}

export type Authenticated =
  | { readonly rest: Buffer; readonly refused: null }
  | { readonly rest: Buffer; readonly refused: FatalReason };

export async function authenticate(
  client: Socket,
  user: string,
  rest: Buffer,
  passwords: Passwords,
  messageBytesMax: number,
  moved: () => void,
  turn: () => Promise<FatalReason | null>,
): Promise<Authenticated> {
  const messages = new PasswordMessages(client, rest, messageBytesMax, moved);
  try {
    const refused = await scram(client, user, messages, passwords, turn);
    return { rest: messages.rest, refused };
  } catch (error) {
    if (!(error instanceof ScramViolation || error instanceof ProtocolViolation)) throw error;
    return { rest: messages.rest, refused: { sqlstate: '08P01', message: error.message } };
  }
}

async function scram(
  client: Socket,
  user: string,
  messages: PasswordMessages,
  passwords: Passwords,
  turn: () => Promise<FatalReason | null>,
): Promise<FatalReason | null> {
  client.write(writeAuthentication(10, `${scramMechanism}\0\0`));
  const initial = readSaslInitial(await messages.next());
  if (initial?.mechanism !== scramMechanism) {
    throw new ScramViolation('client selected an invalid SASL authentication mechanism');
  }
  let known: ScramVerifier | null;
  try {
    // Bytes that are not valid text stand for another name than the engine will read.
    known = user.includes('\ufffd') ? null : await passwords.verifier(user);
  } catch {
    return { sqlstate: '57P03', message: 'the database is not available' };
  }
  const verifier = known ?? nobodysVerifier(user, passwords.key);
  const exchange = beginScram(initial.response, verifier, randomBytes(18).toString('base64'));
  client.write(writeAuthentication(11, exchange.challenge));
  const proof = (await messages.next()).toString('latin1');
  const early = await turn();
  if (early !== null) return early;
  const answer = exchange.finish(proof);
  if (answer === null) {
    return { sqlstate: '28P01', message: `password authentication failed for user "${user}"` };
  }
  client.write(writeAuthentication(12, answer));
  return null;
}

/** The messages of a client during authentication; what it has sent after them stays in `rest`. */
class PasswordMessages {
  readonly #client: Socket;
  readonly #bytesMax: number;
  readonly #moved: () => void;
  #received: Buffer;

  constructor(client: Socket, received: Buffer, bytesMax: number, moved: () => void) {
    this.#client = client;
    this.#moved = moved;
    this.#received = received;
    this.#bytesMax = bytesMax;
  }

  get rest(): Buffer {
    return this.#received;
  }

  /** The body of the next message. Leaves the socket paused. */
  async next(): Promise<Buffer> {
    const body = await readUntil(this.#client, this.#received, (received) => this.#takeMessage(received));
    this.#moved();
    return body;
  }

  #takeMessage(bytes: Buffer): Buffer | null {
    if (bytes.length < 5) return null;
    const length = bytes.readInt32BE(1);
    if (bytes[0] !== fromClient.password || length < 4 || length > this.#bytesMax) {
      throw new ProtocolViolation('expected SASL response');
    }
    if (bytes.length < 1 + length) return null;
    this.#received = bytes.subarray(1 + length);
    return bytes.subarray(5, 1 + length);
  }
}

/** An AuthenticationSASL… message: `kind` 10 asks, 11 continues, 12 ends. */
function writeAuthentication(kind: 10 | 11 | 12, data: string): Buffer {
  const head = Buffer.allocUnsafe(4);
  head.writeInt32BE(kind, 0);
  return message('R', Buffer.concat([head, Buffer.from(data, 'latin1')]));
}

/** The AuthenticationSASL in these bytes without mechanisms that bind a channel; null: there is nothing to leave out. */
export function withoutChannelBinding(body: Buffer): Buffer | null {
  if (body.length < 6 || body.readInt32BE(0) !== 10 || body.at(-1) !== 0 || body.at(-2) !== 0) return null;
  const offered = body.toString('latin1', 4, body.length - 2).split('\0');
  const kept = offered.filter((mechanism) => !mechanism.endsWith('-PLUS'));
  return kept.length === offered.length ? null : writeAuthentication(10, `${kept.join('\0')}\0\0`);
}

/** A client's first answer to AuthenticationSASL; null: it is not one. */
function readSaslInitial(body: Buffer): { mechanism: string; response: string } | null {
  const mechanism = readStrings(body, 1)?.[0];
  const at = (mechanism?.length ?? 0) + 1;
  if (mechanism === undefined || body.length < at + 4) return null;
  const length = body.readInt32BE(at);
  if (length !== body.length - at - 4) return null;
  return { mechanism, response: body.toString('latin1', at + 4) };
}
