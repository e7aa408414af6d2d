/**
 * Where the events of databases of any product are stored: what each says of itself decides. Takes the name of a database, returns its store; refuses as
 * Products does.
 */
import type { Product, Products } from '../engine/server-product.ts';
import type { PostgresEvents } from './postgres-events.ts';
import type { RisingWaveEvents } from './risingwave-events.ts';

interface StoresByProduct {
  readonly postgresql: PostgresEvents;
  readonly risingwave: RisingWaveEvents;
}

export class EventsByProduct {
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

  /** As of EventStore. */
  release(database: string): Promise<void> {
    return this.#stores[this.#products.known(database)].release(database);
  }
}
