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
import { engineOf, otherSqlRooms } from './engines.ts';
import type { NamedEngine } from './engines.ts';
import { openEventParts } from './event-lanes.ts';
import type { EventParts } from './event-lanes.ts';
import type { EventStores } from './event-store.ts';
import { PostgresEvents } from './events.ts';
import { RisingWaveEvents } from './risingwave-events.ts';
import type { SqlSurroundings } from './sql-sessions.ts';

/** What the gateway has of its databases. */
export interface Databases {
  readonly sql: SqlSurroundings;
  readonly events: EventStores;
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

/** Presents several engines of one database each as one engine of several databases. */
function asOneEngine(engines: readonly NamedEngine[]): Pick<EventParts, 'engine' | 'ready'> {
  return {
    engine: {
      clientConfig: (database) => {
        const { engine } = engineOf(engines, database);
        return engine.clientConfig(engine.defaultDatabase);
      },
      logsIn: false,
    },
    // The names come from the gateway's own settings.
    ready: () => Promise.resolve(),
  };
}

interface StoresByProduct {
  readonly postgresql: PostgresEvents;
  readonly risingwave: RisingWaveEvents;
}

/** Where the events of databases of any product are stored: what each says of itself decides. Refuses as Products does. */
class EventsByProduct implements EventStores {
  readonly #products: Products;
  readonly #stores: StoresByProduct;

  constructor(products: Products, stores: StoresByProduct) {
    this.#products = products;
    this.#stores = stores;
  }

  /** At once if the database has said it; throws Refused. */
  of(database: string): StoresByProduct[Product] | Promise<StoresByProduct[Product]> {
    const product = this.#products.of(database);
    return product instanceof Promise ? product.then((it) => this.#stores[it]) : this.#stores[product];
  }

  release(database: string): Promise<void> {
    return this.#stores[this.#products.known(database)].release(database);
  }
}
