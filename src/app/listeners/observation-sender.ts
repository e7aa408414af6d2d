/**
 * A listener process's observations on their way to the main process. Takes observations of any room, sends them as plain
 * values, those of one turn together; while an earlier message is not written they wait, a bounded number of them,
 * and what is left out is counted and told. Refuses nothing.
 */
import { errorText } from '../../admin/log.ts';
import type { Observation, TableName } from '../../tables/observations.ts';
import type { FromListener } from './messages.ts';

export class ObservationSender {
  readonly #send: (message: FromListener, written: () => void) => void;
  readonly #waitingMax: number;
  #waiting: Observation[] = [];
  #leftOut = 0;
  /** A turn's end, or a message, is waited for. */
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

/** Rooms hand over their own objects for tables, with functions in them, and whatever was thrown: of that the log's text. */
function plain(observation: Observation): Observation {
  const copy: Record<string, unknown> = { ...observation };
  if (copy['table'] !== undefined && copy['table'] !== null) {
    const { database, schema, table } = copy['table'] as TableName;
    copy['table'] = { database, schema, table };
  }
  if ('error' in copy) copy['error'] = errorText(copy['error']);
  return copy as unknown as Observation;
}
