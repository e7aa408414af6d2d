/**
 * The connections of one door that are read without Node's parser (fast-connection.ts). Takes sockets of a front; ends those that are silent for too long,
 * and gives those whose request arrives too slowly to Node. Holds a bounded number of bytes of incomplete requests, for a moment; slow and large requests
 * go to Node, too.
 */
import type { Socket } from 'node:net';
import type { Limits } from '../config/limits.ts';
import { PerTurn } from '../kit/event-loop.ts';
import type { Connection } from './connection.ts';
import { FastConnection } from './fast-connection.ts';
import type { FastContext } from './fast-connection.ts';
import { PlainRequestParser } from './plain-request-parser.ts';
import type { HttpServerOptions } from './server.ts';

export interface FastRules extends Pick<HttpServerOptions, 'limits' | 'answersHalfClosed' | 'silenceMs'> {
  /** How the targets of requests begin that are read here. */
  readonly prefixes: readonly string[];
  /** Where whole requests go. */
  readonly requests: FastContext['requests'];
  /** Gives a socket to Node's parser. */
  readonly handOver: (socket: Socket) => void;
  /** Called when nothing arrived within the time that headers have. */
  readonly expired: (socket: Socket) => void;
}

export class FastConnections implements FastContext {
  readonly limits: Limits;
  readonly requests: FastRules['requests'];
  readonly answersHalfClosed: boolean;
  readonly handOver: FastRules['handOver'];
  readonly recogniser: PlainRequestParser;
  readonly keepsAlive: string;
  heldBytes = 0;
  /** Goes up by one every `#tickMs`. */
  tick = 0;
  readonly #rules: FastRules;
  readonly #tickMs: number;
  readonly #all = new Set<FastConnection>();
  readonly #holding = new Set<FastConnection>();
  #ticking: NodeJS.Timeout | null = null;
  #isWatching = false;
  readonly #leavings: PerTurn;

  constructor(rules: FastRules) {
    const { limits, prefixes, silenceMs } = rules;
    const { headersTimeoutMs, keepAliveTimeoutMs } = limits;
    this.#rules = rules;
    this.limits = limits;
    this.requests = rules.requests;
    this.answersHalfClosed = rules.answersHalfClosed;
    this.handOver = rules.handOver;
    this.#leavings = new PerTurn(limits.endingsPerTurnMax, setImmediate);
    this.recogniser = new PlainRequestParser({
      prefixes,
      headBytesMax: Math.min(limits.fastHeadBytesMax, limits.headersBytesMax),
      targetBytesMax: limits.targetBytesMax,
      linesMax: limits.headersCountMax,
      bodyBytesMax: limits.fastBodyBytesMax,
    });
    this.keepsAlive = `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(keepAliveTimeoutMs / 1_000)}\r\n`;
    // As often as Node checks.
    const shortest = Math.min(headersTimeoutMs, keepAliveTimeoutMs, silenceMs ?? Infinity);
    this.#tickMs = Math.min(1_000, Math.ceil(shortest / 4));
  }

  add(socket: Socket, connection: Connection): void {
    const added = new FastConnection(this, socket, connection);
    this.#all.add(added);
    this.#ticking ??= setInterval(() => this.#sweep(), this.#tickMs).unref();
  }

  remove(gone: FastConnection): void {
    this.#all.delete(gone);
    this.#holding.delete(gone);
    if (this.#all.size > 0 || this.#ticking === null) return;
    clearInterval(this.#ticking);
    this.#ticking = null;
  }

  /** Ends connections that have answered all of their requests. */
  endIdle(): void {
    for (const { isIdle, hadRequest, socket } of this.#all) if (isIdle && hadRequest) socket.destroy();
  }

  /** Gives all requests that have begun to Node, which has read them in the next turn. Returns whether there were any. */
  leaveHeld(): boolean {
    const held = [...this.#holding];
    for (const connection of held) connection.leaveHeld();
    return held.length > 0;
  }

  holds(connection: FastConnection, does: boolean): void {
    if (!does) return void this.#holding.delete(connection);
    this.#holding.add(connection);
    if (!this.#isWatching) this.#watch();
  }

  #watch(): void {
    this.#isWatching = true;
    setTimeout(() => {
      this.#isWatching = false;
      for (const connection of this.#holding) {
        // Node creates a parser for each, and thousands may have begun at the same instant.
        if (connection.isSlow)
          this.#leavings.run(() => (connection.isSlow ? connection.leaveHeld() : undefined));
        else connection.isSlow = true;
      }
      if (this.#holding.size > 0) this.#watch();
    }, this.limits.fastHoldMs).unref();
  }

  #sweep(): void {
    this.tick += 1;
    for (const connection of this.#all) this.#endSilent(connection);
  }

  #endSilent(connection: FastConnection): void {
    const { headersTimeoutMs, keepAliveTimeoutMs } = this.limits;
    // At least this long: the first of these ticks may have followed at once.
    const silentMs = (this.tick - connection.tick - 1) * this.#tickMs;
    if (silentMs >= (this.#rules.silenceMs ?? Infinity)) return void connection.socket.destroy();
    if (!connection.isIdle) return;
    if (connection.hadRequest) {
      if (silentMs >= keepAliveTimeoutMs) connection.socket.destroy();
    } else if (silentMs >= headersTimeoutMs) {
      connection.isOver = true;
      this.#rules.expired(connection.socket);
    }
  }
}
