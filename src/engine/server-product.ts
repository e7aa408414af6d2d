/**
 * Which product answers for a database of EVENTS_API_<DB>_DSN. Takes how to connect to it, returns what it says of itself in
 * `version()`, which is queried once and remembered: RisingWave calls itself PostgreSQL 13 everywhere else. Refuses with
 * `engine_unavailable` while the server does not answer, and with what notConnected returns.
 */
import type { ClientConfig } from 'pg';
import { limits } from '../config/limits.ts';
import { withClient } from './close-client.ts';
import { notConnected } from './connection-failure.ts';

export type Product = 'postgresql' | 'risingwave';

/** `version`: the result of version(); RisingWave calls itself PostgreSQL 13 everywhere else. */
export const isRisingWave = (version: string): boolean => version.includes('-RisingWave-');

export class Products {
  readonly #clientConfig: (database: string) => ClientConfig;
  readonly #known = new Map<string, Product>();
  readonly #asking = new Map<string, Promise<Product>>();

  /** Throws Refused if there is no database of that name. */
  constructor(clientConfig: (database: string) => ClientConfig) {
    this.#clientConfig = clientConfig;
  }

  /** Returns at once if the product is known. */
  of(database: string): Product | Promise<Product> {
    const known = this.#known.get(database) ?? this.#asking.get(database);
    if (known !== undefined) return known;
    const asked = this.#ask(database).finally(() => this.#asking.delete(database));
    this.#asking.set(database, asked);
    return asked;
  }

  /** For a database whose product is known. */
  known(database: string): Product {
    return this.#known.get(database) ?? 'postgresql';
  }

  async #ask(database: string): Promise<Product> {
    const config = this.#clientConfig(database);
    try {
      const { rows } = await withClient(config, limits.engineAnswerMs, (client) =>
        client.query<{ version: string }>('select version()'),
      );
      const product = isRisingWave(rows[0]?.version ?? '') ? 'risingwave' : 'postgresql';
      this.#known.set(database, product);
      return product;
    } catch (error) {
      throw notConnected(error);
    }
  }
}
