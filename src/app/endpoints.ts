/**
 * What SHOW ENDPOINTS tells that the database does not know: where webhooks come in, and which sender's check guards a
 * table. Takes the catalog's tables as they were read last, gives plain values; opens no secret. Part of the composition
 * root.
 */
import type { ShownTable } from '../catalog/catalog.ts';
import type { CatalogRow } from '../catalog/snapshot.ts';
import { senderOf } from '../senders/senders.ts';
import type { Sender } from '../senders/sender.ts';
import type { Settings } from '../tables/settings.ts';

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Before `/webhook/…`, as this machine calls it; null: the listener is off. */
export function ownBase(settings: Settings, listen: Address | null): string | null {
  if (listen === null) return null;
  const host = reachable(listen.host);
  const scheme = settings.listenTlsCert === null ? 'http' : 'https';
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${listen.port}`;
}

export const reachable = (host: string): string =>
  host === '0.0.0.0' ? '127.0.0.1' : host === '::' ? '::1' : host;

export interface EndpointState {
  readonly sender: string | null;
  readonly check: string;
}

/** Whose check each of the tables has; what was found is kept as long as the table is what it was. */
export class Endpoints {
  readonly #shown: (database: string) => readonly ShownTable[];
  readonly #base: string | null;
  readonly #found = new Map<string, Map<string, Sender | null>>();

  constructor(
    shown: (database: string) => readonly ShownTable[],
    settings: Settings,
    listen: Address | null,
  ) {
    this.#shown = shown;
    this.#base = listen === null ? null : (settings.publicUrl ?? ownBase(settings, listen));
  }

  of(database: string): { readonly base: string | null; readonly tables: Record<string, EndpointState> } {
    const before = this.#found.get(database);
    const found = new Map<string, Sender | null>();
    const tables: Record<string, EndpointState> = {};
    for (const { oid, source, unusable } of this.#shown(database)) {
      if (source === null) continue;
      const row = JSON.parse(source) as Pick<CatalogRow, 'expression' | 'secrets'>;
      const known = before?.get(source);
      const sender =
        known === undefined
          ? senderOf(
              row.expression ?? '',
              row.secrets.map(({ alias }) => alias),
            )
          : known;
      found.set(source, sender);
      const check = unusable === null ? kindOf(row.expression, sender) : `unusable: ${unusable}`;
      tables[oid] = { sender: sender?.id ?? null, check };
    }
    this.#found.set(database, found);
    return { base: this.#base, tables };
  }
}

function kindOf(expression: string | null, sender: Sender | null): string {
  if (expression === null) return 'none';
  if (sender === null) return 'expression';
  return sender.theme === 'A token' ? 'token' : 'signature';
}
