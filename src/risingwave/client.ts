/** Connections of node-postgres to servers that need not be trusted: everything they send goes through a guard, and closing never waits for them. */
import { EventEmitter } from 'node:events';
import type { Duplex } from 'node:stream';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { cutOff } from '../engine/close-client.ts';
import { limits } from '../config/limits.ts';
import { ReplyGuard } from './reply-guard.ts';

/** What node-postgres's types do not say about its Connection. */
interface ConnectionParts {
  attachListeners(stream: Pick<EventEmitter, 'on'>): void;
  query(sql: string): void;
}

export class GuardedClient extends Client {
  constructor(config?: ClientConfig) {
    super(config);
    const { connection } = this as unknown as { readonly connection: ConnectionParts };
    const whole = new EventEmitter();
    const guard = new ReplyGuard((messages) => whole.emit('data', messages));
    const attach = connection.attachListeners.bind(connection);
    const query = connection.query.bind(connection);
    connection.attachListeners = (stream) => {
      attach(whole);
      stream.on('data', (chunk: Buffer) => {
        try {
          guard.reads(chunk);
        } catch (error) {
          (stream as Duplex).destroy(error instanceof Error ? error : new Error(String(error)));
        }
      });
    };
    connection.query = (sql) => {
      guard.asks(sql);
      query(sql);
    };
  }

  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | void {
    // A server that keeps its end open would keep this one open, too.
    setTimeout(() => cutOff(this), limits.engineFarewellMs).unref();
    return callback === undefined ? super.end() : super.end(callback);
  }
}
