/** Ends a statement that takes too long, or that nobody waits for, whatever state its server is in. */
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import type { ClientBase, ClientConfig } from 'pg';
import { cutOff } from './close-client.ts';

interface CancellationLimits {
  /** How long the statement may run, in ms. */
  readonly statementMs: number;
  /** How long it may take to end once it is cancelled, in ms; then its connection is cut off. */
  readonly cancelMs: number;
}

/** Plain timers: one instance is created for each statement. */
export class Cancellation {
  cancelled = false;
  late = false;
  readonly #client: ClientBase;
  readonly #config: ClientConfig;
  readonly #signal: AbortSignal;
  readonly #cancelMs: number;
  readonly #timeout: NodeJS.Timeout;
  readonly #onAbort = (): void => this.#cancel();
  #cutting: NodeJS.Timeout | null = null;

  constructor(
    client: ClientBase,
    config: ClientConfig,
    signal: AbortSignal,
    { statementMs, cancelMs }: CancellationLimits,
  ) {
    this.#client = client;
    this.#config = config;
    this.#signal = signal;
    this.#cancelMs = cancelMs;
    this.#timeout = setTimeout(() => {
      this.late = true;
      this.#cancel();
    }, statementMs);
    if (signal.aborted) this.#cancel();
    else signal.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** The statement has ended. */
  end(): void {
    clearTimeout(this.#timeout);
    this.#signal.removeEventListener('abort', this.#onAbort);
    if (this.#cutting !== null) clearTimeout(this.#cutting);
  }

  #cancel(): void {
    if (this.cancelled) return;
    this.cancelled = true;
    cancel(this.#client, this.#config, this.#cancelMs);
    // A cancelled connection is not lent again; if its server does not receive the cancellation, it ends here.
    this.#cutting = setTimeout(() => cutOff(this.#client), this.#cancelMs);
  }
}

/** On a separate connection, without TLS as in libpq: it contains nothing but the session's own number. */
function cancel(client: ClientBase, config: ClientConfig, cancelMs: number): void {
  const { processID, secretKey } = client as unknown as {
    processID: number | null;
    secretKey: number | null;
  };
  if (processID === null || secretKey === null) return;
  const host = config.host ?? 'localhost';
  const port = config.port ?? 5432;
  const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port });
  const request = Buffer.allocUnsafe(16);
  request.writeInt32BE(16, 0);
  request.writeInt32BE(80_877_102, 4);
  request.writeInt32BE(processID, 8);
  request.writeInt32BE(secretKey, 12);
  sendCancelRequest(socket, request);
  const bound = setTimeout(() => socket.destroy(), cancelMs);
  socket.once('close', () => clearTimeout(bound));
}

/**
 * Sends a CancelRequest as libpq does: the connection stays open until the server has ended it. PgBouncer 1.18 exits, with the connections of all
 * of its clients, if a client that asks for a cancellation leaves before the server has it (its issue 801). The socket may still be connecting; it belongs
 * to the caller until its `close`.
 */
export function sendCancelRequest(socket: Socket, packet: Buffer): void {
  socket.on('error', () => {});
  // A socket may be open for writing until both sides have ended.
  socket.once('end', () => socket.end());
  socket.resume();
  socket.write(packet);
}
