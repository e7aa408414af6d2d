/**
 * Sends a listener process's observations to the main process. Takes observations of any room and sends them as plain
 * values, those of one turn together. While an earlier message is unwritten they wait, a bounded number of them; those left
 * out are counted and reported. Refuses nothing.
 */
import { errorText } from '../../admin/log.ts';
import type { Observation, TableName } from '../../observe/observations.ts';
import type { FromListener } from './messages.ts';

export class ObservationSender {
  readonly #send: (message: FromListener, written: () => void) => void;
  readonly #waitingMax: number;
  #waiting: Observation[] = [];
  #leftOut = 0;
  /** The end of the turn, or a message, is pending. */
  #busy = false;

  constructor(send: (message: FromListener, written: () => void) => void, waitingMax: number) {
    this.#send = send;
    this.#waitingMax = waitingMax;
  }

  say(observation: Observation): void {
    if (this.#waiting.length >= this.#waitingMax) this.#leftOut += 1;
    else this.#waiting.push(plain(observation));
    if (this.#busy) return;
    this.#busy = true;
    setImmediate(() => this.#flush());
  }

  #flush(): void {
    const observations = this.#waiting;
    this.#waiting = [];
    if (this.#leftOut > 0) {
      observations.push({ kind: 'listener.said', line: `${this.#leftOut} observations were left out` });
      this.#leftOut = 0;
    }
    this.#send({ kind: 'said', observations }, () => {
      if (this.#waiting.length > 0) setImmediate(() => this.#flush());
      else this.#busy = false;
    });
  }
}

/** Rooms pass their own table objects, which contain functions, and thrown values, of which the log's text is kept. */
function plain(observation: Observation): Observation {
  const copy: Record<string, unknown> = { ...observation };
  if (copy['table'] !== undefined && copy['table'] !== null) {
    const { database, schema, table } = copy['table'] as TableName;
    copy['table'] = { database, schema, table };
  }
  if ('error' in copy) copy['error'] = errorText(copy['error']);
  return copy as unknown as Observation;
}
