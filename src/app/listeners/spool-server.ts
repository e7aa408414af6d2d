/**
 * The disk of several listener processes, as seen from the main process, which alone writes to it and hands over from it. Takes
 * requests that a process has checked and decoded; returns what became of each. Refuses what the spool refuses, and with `deadline`.
 *
 * A table spools in all processes or in none, so that no request overtakes one that was answered before it came: the gate here stays
 * `filling`, and nothing is kept, until every process has reported that its own gate is closed and its lane holds no more requests of
 * the table. The gate here opens first; a process that still sends requests is told to use the lane. A dead process is not waited
 * for: nobody reads the answers to its requests any more.
 */
import type { DatabaseSpool, NamedTable } from '../../spool/database-spool.ts';
import { within } from '../../kit/promises.ts';
import type { TableGate } from '../../spool/table-order.ts';
import { limits } from '../../config/limits.ts';
import { refusal, Refused } from '../../errors/refusals.ts';
import type { KeptAnswer, SpoolReply, SpoolNotice } from './messages.ts';

type KeptSpool = Pick<DatabaseSpool, 'database' | 'gates' | 'gateOf' | 'append' | 'wake'>;

interface ListenerProcess {
  tellSpool(told: SpoolNotice): void;
}

export class SpoolServer {
  readonly #databases = new Map<string, KeptSpool>();
  readonly #processes = new Set<ListenerProcess>();
  /** Processes that have not closed a gate yet. */
  readonly #awaited = new Map<TableGate, Set<ListenerProcess>>();
  /** Results that are reported together. */
  readonly #ended = new Map<ListenerProcess, KeptAnswer[]>();

  /** A spool has been opened, with closed gates for what earlier processes have left. */
  opened(kept: KeptSpool): void {
    this.#databases.set(kept.database, kept);
    for (const process of this.#processes) this.#tellState(process, kept);
    for (const gate of kept.gates) if (gate.state !== 'open') void this.#untilOpen(kept, gate);
  }

  /** Called before the process gets its first connection. */
  serves(process: ListenerProcess): void {
    this.#processes.add(process);
    for (const kept of this.#databases.values()) this.#tellState(process, kept);
  }

  gone(process: ListenerProcess): void {
    this.#processes.delete(process);
    this.#ended.delete(process);
    for (const gate of this.#awaited.keys()) this.#closed(process, gate);
  }

  said(process: ListenerProcess, said: SpoolReply): void {
    const { database, oid } = said.table;
    const kept = this.#databases.get(database);
    if (kept === undefined) return;
    const gate = kept.gateOf(oid);
    if (said.what === 'fill') this.#fill(kept, gate, said.sinceMs);
    else if (said.what === 'closed') this.#closed(process, gate);
    else
      for (const { id, payload } of said.requests)
        void this.#keep(kept, gate, said.table, Buffer.from(payload, 'base64')).then((end) =>
          this.#tellEnd(process, { id, end }),
        );
  }

  #tellState(process: ListenerProcess, { database, gates }: KeptSpool): void {
    process.tellSpool({ what: 'opened', database });
    for (const { oid, state, sinceMs } of gates)
      if (state !== 'open')
        process.tellSpool({ what: 'close', table: { database, oid }, sinceMs: sinceMs ?? 0 });
  }

  #fill(kept: KeptSpool, gate: TableGate, sinceMs: number): void {
    if (gate.state !== 'open') return;
    const { database } = kept;
    this.#awaited.set(gate, new Set(this.#processes));
    for (const process of this.#processes) {
      gate.enterLane();
      process.tellSpool({ what: 'close', table: { database, oid: gate.oid }, sinceMs });
    }
    gate.fill(sinceMs);
    void this.#untilOpen(kept, gate);
    kept.wake();
  }

  #closed(process: ListenerProcess, gate: TableGate): void {
    if (this.#awaited.get(gate)?.delete(process) === true) gate.leaveLane();
  }

  async #untilOpen({ database }: KeptSpool, gate: TableGate): Promise<void> {
    while (gate.state !== 'open') await gate.turn;
    this.#awaited.delete(gate);
    for (const process of this.#processes)
      process.tellSpool({ what: 'open', table: { database, oid: gate.oid } });
  }

  async #keep(
    kept: KeptSpool,
    gate: TableGate,
    table: NamedTable,
    payload: Buffer,
  ): Promise<KeptAnswer['end']> {
    try {
      if (gate.state === 'filling' || gate.state === 'emptying') await settled(gate);
      if (gate.state === 'open') return 'open';
      await kept.append(table, gate, payload);
      return 'on the disk';
    } catch (error) {
      return error instanceof Refused ? error.refusal : refusal('internal');
    }
  }

  #tellEnd(process: ListenerProcess, answer: KeptAnswer): void {
    if (!this.#processes.has(process)) return;
    const ended = this.#ended.get(process);
    if (ended !== undefined) return void ended.push(answer);
    const answers = [answer];
    this.#ended.set(process, answers);
    setImmediate(() => {
      this.#ended.delete(process);
      process.tellSpool({ what: 'kept', answers });
    });
  }
}

/** Resolves once requests of the table are kept, or go to the lane. The wait for processes is bounded. */
async function settled(gate: TableGate): Promise<void> {
  const deadline = performance.now() + limits.ackDeadlineMs;
  while (gate.state === 'filling' || gate.state === 'emptying')
    if ((await within(deadline - performance.now(), gate.turn, 'late')) === 'late')
      throw new Refused('deadline');
}
