/**
 * The databases that the gateway is in front of, of any supported product: each request is stored by what its database reports about itself. Takes
 * engines; opens connections only when asked.
 */
import type { Lanes } from '../batch/lanes.ts';
import { Products } from '../engine/server-product.ts';
import type { Product } from '../engine/server-product.ts';
import type { Closer } from '../kit/closer.ts';
import type { StageContext } from '../observe/context.ts';
import type { Tracer } from '../telemetry/tracer.ts';
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import type { GatewayDatabases } from './gateway-options.ts';
import { otherSqlRooms } from './engines.ts';
import type { NamedEngine } from './engines.ts';
import type { EventBody } from './event-body.ts';
import type { EventAnswer, EventRequest, EventStore, OnConflict } from './event-store.ts';
import { asOneEngine, openEventParts } from './event-lanes.ts';
import { PostgresEvents } from './postgres-events.ts';
import { RisingWaveEvents } from './risingwave-events.ts';

/** What the gateway has of its databases. */
export interface Databases extends Pick<GatewayDatabases, 'sql' | 'events'> {
  /** How many rows wait, for each table with waiting rows. */
  readonly depths: Lanes['depths'];
}

/** The databases of EVENTS_API_<DB>_DSN. Closed by `closer`. */
export function externalDatabases(
  engines: readonly NamedEngine[],
  context: StageContext,
  closer: Closer,
  tracer: Pick<Tracer, 'commit'> | null = null,
): Databases {
  const one = asOneEngine(engines);
  const parts = openEventParts(one, context, closer, tracer);
  const clientConfig = (database: string) => one.engine.clientConfig(database);
  const products = new Products(clientConfig);
  const postgresql = new PostgresEvents(parts, closer);
  const risingwave = new RisingWaveEvents(clientConfig, context, closer);
  return {
    sql: otherSqlRooms(engines, products),
    events: new EventsByProduct(products, { postgresql, risingwave }),
    depths: () => [...parts.lanes.depths(), ...risingwave.lanes.depths()],
  };
}

/** The lookup of the table decides which product stores a request. */
class EventsByProduct implements EventStore {
  readonly clock: () => number;
  readonly #products: Products;
  readonly #stores: Readonly<Record<Product, EventStore>>;

  constructor(products: Products, stores: Readonly<Record<Product, EventStore>>) {
    this.clock = stores.postgresql.clock;
    this.#products = products;
    this.#stores = stores;
  }

  find(
    database: string,
    name: string,
    onConflict: OnConflict | null,
    sinceMs?: number,
  ): Target | Promise<Target> {
    const find = (it: Product) => this.#stores[it].find(database, name, onConflict, sinceMs);
    const product = this.#products.of(database);
    return product instanceof Promise ? product.then(find) : find(product);
  }

  forget(database: string, name: string): void {
    this.#of(database).forget(database, name);
  }

  admit(target: Target): void {
    this.#of(target.database).admit(target);
  }

  submit(rows: Rows): Promise<Outcome> {
    return this.#of(rows.target.database).submit(rows);
  }

  release(database: string): Promise<void> {
    return this.#of(database).release(database);
  }

  large(target: Target, request: EventRequest, body: EventBody): Promise<EventAnswer> {
    return this.#of(target.database).large(target, request, body);
  }

  skipping(target: Target, request: EventRequest, body: EventBody, small: Buffer): Promise<EventAnswer> {
    return this.#of(target.database).skipping(target, request, body, small);
  }

  readable(database: string): Promise<void> {
    return this.#of(database).readable(database);
  }

  #of(database: string): EventStore {
    return this.#stores[this.#products.known(database)];
  }
}
