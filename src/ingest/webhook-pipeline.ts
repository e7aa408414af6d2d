/**
 * The way of webhooks from their table to its lane. Tables that spool take another one (spooling.ts), which may lead to the disk; so does a table that the
 * catalog does not have at once. Refuses with `rate_limited`, and with the codes of catalog, lanes and disk.
 */
import type { Observe, TableName } from '../observe/observations.ts';
import { isSpooling } from '../spool/spool-settings.ts';
import type { Arrival } from '../types/request.ts';
import type { Outcome, Rows, Spooled } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { Pipeline } from './pipeline.ts';
import { Spooling } from './spooling.ts';
import type { SpoolChoices, WebhookDestinations } from './spooling.ts';

export class WebhookPipeline implements Pipeline {
  readonly #to: WebhookDestinations;
  readonly #settings: SpoolChoices;
  readonly #spooling: Spooling;

  constructor(to: WebhookDestinations, settings: SpoolChoices, observe: Observe) {
    this.#to = to;
    this.#settings = settings;
    this.#spooling = new Spooling(to, settings, observe);
  }

  find(name: TableName): Target | Promise<Target> {
    return this.#to.catalog.answering(name) ?? this.#spooling.findLate(name);
  }

  isStill(target: Target, sinceMs: number): boolean | Promise<boolean> {
    return this.#spooling.isStill(target, sinceMs);
  }

  admit(target: Target, bytes: number): void {
    this.#to.gate?.admitTable(target);
    if (isSpooling(target, this.#settings)) this.#spooling.admit(target, bytes);
    else this.#to.lanes.admit(target, { bytes, inOrder: false });
  }

  submit(rows: Rows, arrival: Arrival, body: Buffer): Promise<Outcome | Spooled> {
    if (isSpooling(rows.target, this.#settings)) return this.#spooling.submit(rows, arrival, body);
    return this.#to.lanes.submit(rows);
  }
}
