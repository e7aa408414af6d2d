/**
 * One client of the SQL door until it is authenticated: reads how it opens its connection, answers its encryption requests, begins TLS if that is
 * requested, and returns the packet that says what the client wants; and how it ends if that takes too long, if others need its place, or if
 * the door closes. Takes its socket, and touches nothing else. Bounded in bytes; the caller bounds the time by destroying the socket.
 */
import type { Socket } from 'node:net';
import { createServer } from 'node:tls';
import type { Server, TLSSocket } from 'node:tls';
import { TlsHandshakes } from '../access/handshakes.ts';
import type { TlsSource } from '../access/tls-source.ts';
import { deferred } from '../kit/promises.ts';
import type { Deferred } from '../kit/promises.ts';
import { canonicalAddress, clientNetwork } from '../kit/address.ts';
import { nameBytesMax } from '../kit/sql-text.ts';
import { writeFatal } from './messages.ts';
import type { FatalReason } from './messages.ts';
import { ProtocolViolation, unread } from './framing.ts';

const tooLate: FatalReason = { sqlstate: '57014', message: 'canceling authentication due to timeout' };
const crowded: FatalReason = {
  sqlstate: '53300',
  message: 'too many connections wait to be authenticated, and this one has been silent for longest',
  hint: 'Connect again, and log in without a pause.',
};

export class Startup implements Newcomer {
  readonly network: string;
  /** Aborted when whatever is being done for the client is no longer wanted. */
  readonly signal: AbortSignal;
  /** The client has said what it wants, and that is being done. */
  served = false;
  readonly #socket: Socket;
  readonly #ended = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #left: () => void;
  /** The socket over which it can be sent a message; null: none, a message would be read as part of TLS. */
  #voice: Socket | null;
  #ending = (why: FatalReason | null): void => this.#hangUp(why);

  /** `left`: called when it is authenticated, or ends. */
  constructor(socket: Socket, timeoutMs: number, left: (startup: Startup) => void) {
    this.#socket = socket;
    this.#voice = socket;
    this.signal = this.#ended.signal;
    const address = socket.remoteAddress ?? '';
    this.network = clientNetwork(canonicalAddress(address) ?? address);
    this.#left = () => left(this);
    this.#timer = setTimeout(() => this.end(this.served ? tooLate : null), timeoutMs);
  }

  speaksBy(voice: Socket | null): void {
    this.#voice = voice;
  }

  /** From now on it ends by this function, and not by the end of its socket. */
  endsBy(ending: (why: FatalReason | null) => void): void {
    this.#ending = ending;
  }

  /** It is authenticated, or has left: it can no longer be ended from here. */
  leave(): void {
    clearTimeout(this.#timer);
    this.#left();
  }

  end(why: FatalReason | null): void {
    if (this.signal.aborted) return;
    this.leave();
    this.#ended.abort();
    this.#ending(why);
  }

  makeWay(): void {
    this.end(crowded);
  }

  /** Not waited for: what fits into the kernel's buffer is sent, and nothing is kept for a client that does not read. */
  #hangUp(why: FatalReason | null): void {
    if (why !== null && this.#voice?.writable === true) this.#voice.write(writeFatal(why));
    if (this.#voice === null) this.#socket.destroy();
    else this.#voice.destroySoon();
  }
}

export interface NegotiatedClient {
  /** The connection to continue with: the given socket, or the encrypted connection over it. Paused. */
  readonly client: Socket;
  readonly encrypted: boolean;
  readonly opening: Exclude<FirstMessage, { readonly kind: 'encryption' }>;
  /** The packet, unchanged. */
  readonly packet: Buffer;
  /** What the client has sent after it. */
  readonly rest: Buffer;
}

/** GSSAPI may be requested, then TLS; after that a client has to send its actual request. */
const encryptionRequestsMax = 2;

/** The first byte of a TLS handshake, which the length of an opening packet never begins with. */
const handshake = 0x16;

/**
 * Rejects if the client leaves or does not speak the protocol. Leaves the socket paused. `moved` is called for each step
 * of the client's, with the socket over which it can be sent a message from then on; null: none, because TLS begins.
 */
export async function readClientOpening(
  client: Socket,
  bytesMax: number,
  tls: ClientTls | null,
  moved: (voice: Socket | null) => void,
): Promise<NegotiatedClient> {
  let encryptionRequests = 0;
  let received: Buffer = Buffer.alloc(0);
  for (;;) {
    const first = await readPacket(client, received, bytesMax, tls !== null && encryptionRequests === 0);
    if (first === 'handshake') return readEncrypted(client, bytesMax, tls, true, moved);
    const { opening, packet, rest } = first;
    moved(client);
    if (opening.kind !== 'encryption') return { client, encrypted: false, opening, packet, rest };
    encryptionRequests += 1;
    if (encryptionRequests > encryptionRequestsMax)
      throw new ProtocolViolation('this is no PostgreSQL client');
    if (opening.how === 'ssl' && tls !== null) {
      // Bytes after the request would be read as if they had been sent encrypted (CVE-2021-23214).
      if (rest.length > 0) throw new ProtocolViolation('received unencrypted data after SSL request');
      client.write('S');
      return readEncrypted(client, bytesMax, tls, false, moved);
    }
    client.write('N');
    received = rest;
  }
}

async function readEncrypted(
  client: Socket,
  bytesMax: number,
  tls: ClientTls | null,
  direct: boolean,
  moved: (voice: Socket | null) => void,
): Promise<NegotiatedClient> {
  if (tls === null) throw new ProtocolViolation('this door has no TLS');
  moved(null);
  const secure = await tls.begin(client, direct);
  moved(secure);
  const first = await readPacket(secure, Buffer.alloc(0), bytesMax, false);
  if (first === 'handshake' || first.opening.kind === 'encryption') {
    throw new ProtocolViolation('the connection is encrypted already');
  }
  const { opening, packet, rest } = first;
  moved(secure);
  return { client: secure, encrypted: true, opening, packet, rest };
}

/** What a client may open a connection with. */
type FirstMessage =
  | { readonly kind: 'encryption'; readonly how: 'ssl' | 'gss' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'startup'; readonly parameters: ReadonlyMap<string, string> }
  | { readonly kind: 'unsupported'; readonly version: string };

const requestCodes = { cancel: 80_877_102, ssl: 80_877_103, gss: 80_877_104 } as const;

/** The request that asks an engine to continue with TLS. */
export function writeSslRequest(): Buffer {
  const out = Buffer.allocUnsafe(8);
  out.writeInt32BE(8, 0);
  out.writeInt32BE(requestCodes.ssl, 4);
  return out;
}

/**
 * The length of the opening packet that begins with these bytes; `unread` if there are too few, null if no PostgreSQL
 * client opens a connection like that. `bytesMax` bounds the packet.
 */
function openingLength(bytes: Buffer, bytesMax: number): number | null {
  if (bytes.length < 4) return unread;
  const length = bytes.readInt32BE(0);
  return length >= 8 && length <= bytesMax ? length : null;
}

/** Reads a whole opening packet. Parameter names and values are UTF-8, as PostgreSQL's own tools send them. */
function readOpening(packet: Buffer): FirstMessage {
  const version = packet.readInt32BE(4);
  if (version === requestCodes.ssl) return { kind: 'encryption', how: 'ssl' };
  if (version === requestCodes.gss) return { kind: 'encryption', how: 'gss' };
  if (version === requestCodes.cancel) return { kind: 'cancel' };
  if (version >>> 16 !== 3) return { kind: 'unsupported', version: `${version >>> 16}.${version & 0xffff}` };
  const parameters = new Map<string, string>();
  let at = 8;
  while (at < packet.length && packet[at] !== 0) {
    const nameEnd = packet.indexOf(0, at);
    const valueEnd = nameEnd < 0 ? -1 : packet.indexOf(0, nameEnd + 1);
    if (valueEnd < 0) break;
    parameters.set(packet.toString('utf8', at, nameEnd), packet.toString('utf8', nameEnd + 1, valueEnd));
    at = valueEnd + 1;
  }
  return { kind: 'startup', parameters };
}

/** Whose session in which database the engine begins: it cuts long names off, and takes a missing or empty database for the user's. */
export function namesOf(parameters: ReadonlyMap<string, string>): { user: string; database: string } {
  const cut = (name: string): string => Buffer.from(name).subarray(0, nameBytesMax).toString();
  const user = parameters.get('user') ?? '';
  return { user: cut(user), database: cut(parameters.get('database') || user) };
}

interface Packet {
  readonly opening: FirstMessage;
  readonly packet: Buffer;
  readonly rest: Buffer;
}

/** Reads one opening packet; `handshake`: the bytes, which are returned to the socket, are the beginning of TLS. */
function readPacket(
  client: Socket,
  before: Buffer,
  bytesMax: number,
  mayBeTls: boolean,
): Promise<Packet | 'handshake'> {
  return readUntil(client, before, (received) => {
    if (mayBeTls && received[0] === handshake) {
      client.pause();
      client.unshift(received);
      return 'handshake';
    }
    const length = openingLength(received, bytesMax);
    if (length === null) throw new ProtocolViolation('this is no PostgreSQL client');
    if (length === unread || received.length < length) return null;
    const packet = received.subarray(0, length);
    return { opening: readOpening(packet), packet, rest: received.subarray(length) };
  });
}

export interface Newcomer {
  readonly network: string;
  /** Its place has been given to another client. */
  makeWay(): void;
}

export class Newcomers {
  readonly #max: number;
  /** For each network, the clients that have been silent for longest first, with the number of each one's last step. */
  readonly #networks = new Map<string, Map<Newcomer, number>>();
  #size = 0;
  #steps = 0;

  constructor(max: number) {
    this.#max = max;
  }

  get size(): number {
    return this.#size;
  }

  add(newcomer: Newcomer): void {
    const there = this.#networks.get(newcomer.network) ?? new Map<Newcomer, number>();
    this.#networks.set(newcomer.network, there);
    there.set(newcomer, ++this.#steps);
    this.#size += 1;
    if (this.#size > this.#max) this.evict();
  }

  /** Called when the client has taken a further step: a part of what it has to send has arrived. */
  moved(newcomer: Newcomer): void {
    const there = this.#networks.get(newcomer.network);
    if (there?.delete(newcomer) === true) there.set(newcomer, ++this.#steps);
  }

  remove(newcomer: Newcomer): void {
    const there = this.#networks.get(newcomer.network);
    if (there?.delete(newcomer) !== true) return;
    this.#size -= 1;
    if (there.size === 0) this.#networks.delete(newcomer.network);
  }

  /** Makes one of them leave; false: there is none. */
  evict(): boolean {
    let [first, most, step]: [Newcomer | null, number, number] = [null, 0, 0];
    for (const there of this.#networks.values()) {
      if (there.size < most) continue;
      for (const [newcomer, its] of there) {
        if (there.size > most || its < step) [first, most, step] = [newcomer, there.size, its];
        break;
      }
    }
    if (first === null) return false;
    this.remove(first);
    first.makeWay();
    return true;
  }
}

export function readUntil<T>(
  client: Socket,
  before: Buffer,
  make: (received: Buffer) => T | null,
): Promise<T> {
  return new Promise((resolve, reject) => {
    let received = before;
    const done = (): void => {
      client.pause();
      client.off('data', take);
      client.off('end', left);
      client.off('close', left);
    };
    const left = (): void => {
      done();
      reject(new Error('the client left'));
    };
    const look = (): void => {
      try {
        const made = make(received);
        if (made === null) return;
        done();
        resolve(made);
      } catch (error) {
        done();
        reject(error as Error);
      }
    };
    const take = (chunk: Buffer): void => {
      received = received.length === 0 ? chunk : Buffer.concat([received, chunk]);
      look();
    };
    client.on('data', take);
    client.on('end', left);
    client.on('close', left);
    if (client.isPaused()) client.resume();
    if (received.length > 0) look();
    if (client.destroyed || client.readableEnded) left();
  });
}

/** The protocol's name as registered for ALPN. */
const protocol = 'postgresql';

/**
 * TLS towards the clients of the door. Both ways to begin are supported: after an SSLRequest, and at once (`sslnegotiation=direct` of PostgreSQL 17), in which
 * case the client must name the protocol by ALPN.
 */
export class ClientTls {
  readonly #handshakes = new TlsHandshakes<Deferred<TLSSocket>>();
  /** Never listens: it is given each connection on which TLS begins. */
  readonly #server: Server;

  constructor(source: TlsSource, handshakeTimeoutMs: number) {
    const handshakeTimeout = handshakeTimeoutMs;
    this.#server = createServer({ ...source.serverOptions, ALPNProtocols: [protocol], handshakeTimeout });
    source.serve(this.#server);
    this.#server.on('secureConnection', (secure) => {
      // Its errors are those of the connection: 'close' follows.
      secure.on('error', () => {});
      const waiting = this.#handshakes.done(secure);
      if (waiting === undefined || source.refuses(secure)) secure.destroy();
      else waiting.resolve(secure);
    });
    this.#server.on('tlsClientError', (_error, secure) => secure.destroy());
  }

  /** `direct`: the client began the handshake without a request; its bytes are still to be read from `client`. */
  async begin(client: Socket, direct: boolean): Promise<TLSSocket> {
    const secured = deferred<TLSSocket>();
    const left = (): void => secured.reject(new Error('the TLS handshake did not succeed'));
    client.once('close', left);
    try {
      this.#handshakes.begin(client, secured);
      this.#server.emit('connection', client);
      const secure = await secured.promise;
      if (direct && secure.alpnProtocol !== protocol) {
        secure.destroy();
        throw new Error('a direct TLS connection must name its protocol');
      }
      return secure;
    } finally {
      client.off('close', left);
    }
  }
}
