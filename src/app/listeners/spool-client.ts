/**
 * The disk, as seen from a listener process: the main process owns it. Takes requests to be kept, sends those of one turn together
 * to the main process, and returns what became of them. The main process decides for all processes where requests of a table go;
 * what is noticed here closes the gate here at once. Refuses what the main process refuses, and with `table_changed` if a request
 * is to go to its lane after all.
 */
import { deferred, Openings } from '../../kit/promises.ts';
import type { Deferred } from '../../kit/promises.ts';
import type { Disk, DiskSpool } from '../../ingest/spooling.ts';
import { TableGate } from '../../spool/table-order.ts';
import type { Target } from '../../types/target.ts';
import { limits } from '../../config/limits.ts';
import { Refused } from '../../errors/refusals.ts';
import type { KeptAnswer, SpoolReply, SpoolNotice, TableId } from './messages.ts';

type Say = (said: SpoolReply) => void;
type AskSpool = () => { readonly id: number; readonly ended: Promise<void> };
type Keep = Extract<SpoolReply, { readonly what: 'keep' }>;

export class SpoolClient implements Disk {
  readonly #say: Say;
  readonly #databases = new Map<string, LinkedSpool>();
  readonly #asked = new Map<number, Deferred<void>>();
  readonly #openings = new Openings();
  #lastId = 0;

  constructor(say: Say) {
    this.#say = say;
  }

  /** null: requests of this database are not kept. */
  spoolOf(database: string): LinkedSpool | null {
    return this.#databases.get(database) ?? null;
  }

  /** Resolves when the main process keeps requests of this database. */
  opened(database: string): Promise<void> {
    return this.#openings.of(database);
  }

  told(told: SpoolNotice): void {
    switch (told.what) {
      case 'opened':
        this.#databases.set(told.database, new LinkedSpool(told.database, this.#say, () => this.#ask()));
        this.#openings.opened(told.database);
        break;
      case 'close':
        this.spoolOf(told.table.database)?.gateOf(told.table.oid).close(told.sinceMs);
        break;
      case 'open':
        this.spoolOf(told.table.database)?.gateOf(told.table.oid).openAgain();
        break;
      case 'kept':
        for (const answer of told.answers) this.#end(answer);
        break;
    }
  }

  #ask(): ReturnType<AskSpool> {
    const id = ++this.#lastId;
    const asked = deferred<void>();
    this.#asked.set(id, asked);
    return { id, ended: asked.promise };
  }

  #end({ id, end }: KeptAnswer): void {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    if (end === 'on the disk') asked?.resolve();
    else asked?.reject(new Refused(end === 'open' ? 'table_changed' : end));
  }
}

class LinkedSpool implements DiskSpool {
  readonly #database: string;
  readonly #say: Say;
  readonly #ask: AskSpool;
  readonly #gates = new Map<number, LinkedGate>();
  /** Requests to send at the end of this turn, by the table's oid. */
  readonly #waiting = new Map<
    number,
    { table: Keep['table']; requests: { id: number; payload: string }[] }
  >();
  #waitingBytes = 0;

  constructor(database: string, say: Say, ask: AskSpool) {
    this.#database = database;
    this.#say = say;
    this.#ask = ask;
  }

  gateOf(oid: number): LinkedGate {
    let gate = this.#gates.get(oid);
    if (gate === undefined) {
      gate = new LinkedGate({ database: this.#database, oid }, this.#say);
      this.#gates.set(oid, gate);
    }
    return gate;
  }

  knownGate(oid: number): TableGate | null {
    return this.#gates.get(oid) ?? null;
  }

  /** The main process checks for space when there is something to keep. */
  admit(): void {}

  append({ database, schema, table, oid }: Target, _gate: TableGate, payload: Buffer): Promise<void> {
    const { id, ended } = this.#ask();
    if (this.#waiting.size === 0) setImmediate(() => this.#send());
    let waiting = this.#waiting.get(oid);
    if (waiting === undefined) {
      waiting = { table: { database, schema, table, oid }, requests: [] };
      this.#waiting.set(oid, waiting);
    }
    waiting.requests.push({ id, payload: payload.toString('base64') });
    this.#waitingBytes += payload.length;
    if (this.#waitingBytes >= limits.spoolGroupBytesMax) this.#send();
    return ended;
  }

  #send(): void {
    for (const keep of this.#waiting.values()) this.#say({ what: 'keep', ...keep });
    this.#waiting.clear();
    this.#waitingBytes = 0;
  }
}

class LinkedGate extends TableGate {
  readonly #table: TableId;
  readonly #say: Say;

  constructor(table: TableId, say: Say) {
    super(table.oid);
    this.#table = table;
    this.#say = say;
  }

  override fill(nowMs: number): void {
    if (this.state !== 'open') return;
    this.#say({ what: 'fill', table: this.#table, sinceMs: nowMs });
    this.close(nowMs);
  }

  /** In all processes. */
  close(sinceMs: number): void {
    if (this.state !== 'open') return;
    super.fill(sinceMs);
    void this.#tellClosed();
  }

  openAgain(): void {
    if (this.beginEmptying()) this.open();
  }

  async #tellClosed(): Promise<void> {
    while (this.state !== 'spooling') await this.turn;
    this.#say({ what: 'closed', table: this.#table });
  }
}
