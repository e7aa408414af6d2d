/**
 * A stand-in for RisingWave: its protocol and its restrictions in front of a real PostgreSQL. It refuses what RisingWave lacks, with
 * RisingWave's messages, and provides what only RisingWave has: rw_catalog, FLUSH, dml_wait_persistence, STRUCT, MAP, rw_int256, conflicts by
 * table. It is not RisingWave: casts, functions and plans are PostgreSQL's. What is refused and why: words.ts, statements.ts, session.ts.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import type { Server, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { ClientConfig } from 'pg';
import { int32, message } from '../../../src/kit/postgres-message.ts';
import { quoteLiteral } from '../../../src/kit/sql-text.ts';
import { Backend } from './backend.ts';
import { catalogSql, ownOidsSql } from './catalog.ts';
import { Session } from './session.ts';
import type { Fault, SaidStatement, Shared } from './session.ts';
import type { Struct } from './tables.ts';
import { errorResponse } from './words.ts';

const versionThree = 196_608;
const cancelRequest = 80_877_102;
const encryptionRequests = new Set([80_877_103, 80_877_104]);

export interface StandInOptions {
  /** The interval between checkpoints, in ms; 0: no waits. */
  readonly checkpointMs?: number;
}

export class StandIn {
  readonly said: SaidStatement[] = [];
  /** Called for each statement. */
  fault: (said: SaidStatement) => Fault | null = () => null;
  /** Required from clients; null: none is required. */
  password: string | null = null;
  readonly #config: ClientConfig;
  readonly #admin: Client;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #structs = new Map<string, Promise<unknown>>();
  readonly #checkpointMs: number;
  #ownOids: Promise<ReadonlyMap<number, number>> | null = null;
  port = 0;

  private constructor(config: ClientConfig, admin: Client, { checkpointMs = 0 }: StandInOptions) {
    this.#config = config;
    this.#admin = admin;
    this.#checkpointMs = checkpointMs;
    this.#server = createServer((socket) => this.#greet(socket));
  }

  /** In front of a database, as a superuser. */
  static async open(config: ClientConfig, options: StandInOptions = {}): Promise<StandIn> {
    const admin = new Client(config);
    admin.on('error', () => undefined);
    await admin.connect();
    await admin.query(catalogSql);
    const standIn = new StandIn(config, admin, options);
    await standIn.listen();
    return standIn;
  }

  get dsn(): string {
    return `postgresql://root@127.0.0.1:${this.port}/dev`;
  }

  async listen(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
    const address = this.#server.address();
    this.port = typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Stops accepting connections, and cuts open ones. */
  async leave(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  async close(): Promise<void> {
    if (this.#server.listening) await this.leave();
    await this.#admin.end();
  }

  #greet(socket: Socket): void {
    this.#sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => undefined);
    socket.on('close', () => this.#sockets.delete(socket));
    let come = Buffer.alloc(0);
    const read = (chunk: Buffer): void => {
      come = Buffer.concat([come, chunk]);
      if (come.length < 8 || come.length < come.readUInt32BE(0)) return;
      const length = come.readUInt32BE(0);
      const packet = come.subarray(0, length);
      come = come.subarray(length);
      const version = packet.readUInt32BE(4);
      if (encryptionRequests.has(version)) return void socket.write('N');
      socket.off('data', read);
      if (version === cancelRequest) return this.#cancel(socket, packet);
      // There is no negotiation (read_startup of pg_message.rs): 3.2 is an error, without a message.
      if (version !== versionThree) return void socket.destroy();
      void this.#start(socket, packet, come).catch((error: unknown) => {
        socket.end(
          errorResponse(
            { code: 'XX000', message: `Failed to start a new session: ${String(error)}` },
            'FATAL',
          ),
        );
      });
    };
    socket.on('data', read);
  }

  async #start(socket: Socket, packet: Buffer, rest: Buffer): Promise<void> {
    const given = packet.toString('utf8', 8).split('\0');
    const name = given.findIndex((it, i) => i % 2 === 0 && it === 'application_name');
    if (this.password !== null && (await passwordOf(socket)) !== this.password)
      return void socket.end(errorResponse({ code: '28P01', message: 'Invalid password' }, 'FATAL'));
    socket.pause();
    const backend = await Backend.connect(this.#config);
    socket.on('close', () => backend.close());
    new Session(socket, backend, this.#shared).start(name < 0 ? undefined : given[name + 1], rest);
    socket.resume();
  }

  #cancel(socket: Socket, packet: Buffer): void {
    const { host = '127.0.0.1', port = 5432 } = this.#config;
    const engine = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
    engine.on('error', () => undefined);
    engine.end(packet);
    socket.end();
  }

  readonly #shared: Shared = {
    said: (said) => {
      this.said.push(said);
      return this.fault(said);
    },
    ownOids: () => {
      this.#ownOids ??= this.#admin
        .query<{ oid: number; own: number }>(ownOidsSql)
        .then(({ rows }) => new Map(rows.map(({ oid, own }) => [oid, own])));
      return this.#ownOids;
    },
    makeStructs: async (found) => {
      // A nested STRUCT precedes the one that contains it.
      for (const it of found) await this.#makeStruct(it);
    },
    checkpoint: async () => {
      if (this.#checkpointMs > 0) await sleep(this.#checkpointMs - (Date.now() % this.#checkpointMs));
    },
  };

  #makeStruct({ name, fields, shown }: Struct): Promise<unknown> {
    let made = this.#structs.get(name);
    if (made === undefined) {
      this.#ownOids = null;
      made = this.#admin.query(
        `create type rw_catalog.${name} as (${fields}); comment on type rw_catalog.${name} is ${quoteLiteral(shown)}`,
      );
      this.#structs.set(name, made);
    }
    return made;
  }
}

/** AuthenticationCleartextPassword, and the client's answer (UserAuthenticator::ClearText, src/utils/pgwire/src/pg_server.rs). */
async function passwordOf(socket: Socket): Promise<string> {
  socket.write(message('R', int32(3)));
  const [given] = (await once(socket, 'data')) as [Buffer];
  return given.toString('utf8', 5, given.length - 1);
}
