/**
 * What SHOW ENDPOINTS shows and the database does not know: where webhooks arrive, and which sender's check guards a
 * table. Takes the catalog's tables as last read, returns plain values; opens no secret. Part of the composition root.
 */
import type { CatalogRow } from '../catalog/catalog-rows.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { ownedBy, shownOf } from '../catalog/role-queries.ts';
import { doorUrl } from '../kit/address.ts';
import { formerCheck, senderOf } from '../senders/senders.ts';
import type { Sender } from '../senders/sender.ts';
import type { Settings } from '../config/settings.ts';

interface Address {
  readonly host: string;
  readonly port: number;
}

/** The part before `/webhook/…`, as this machine calls it; null: the listener is off. */
export function ownBase(settings: Settings, listen: Address | null): string | null {
  return listen === null ? null : doorUrl(listen, settings.listenTlsCert !== null);
}

export interface EndpointState {
  readonly sender: string | null;
  readonly check: string;
  /** How the present check of its sender differs, if the table has a former one. */
  readonly former?: string;
}

/** Which sender's check each table has; results are cached for the next call. */
export class Endpoints {
  readonly #databases: Catalog;
  readonly #base: string | null;
  /** Whether HEADGATE_PUBLIC_URL says what senders call. */
  readonly #knowsUrl: boolean;
  #found = new Map<string, Sender | null>();

  constructor(databases: Catalog, settings: Settings, listen: Address | null) {
    this.#databases = databases;
    this.#knowsUrl = settings.publicUrl !== null;
    this.#base = listen === null ? null : (settings.publicUrl ?? ownBase(settings, listen));
  }

  /** Only the tables that this role may look at: its session can read the statement that carries them. */
  async of(session: { readonly database: string; readonly user: string }): Promise<{
    readonly base: string | null;
    readonly tables: Readonly<Record<string, EndpointState>>;
  }> {
    const { database } = session;
    const seen = await ownedBy(this.#databases, session, 'seen');
    const before = this.#found;
    const found = new Map<string, Sender | null>();
    const tables: Record<string, EndpointState> = {};
    for (const { oid, source, unusable } of await shownOf(this.#databases, database, seen)) {
      if (source === null) {
        tables[oid] = { sender: null, check: `unusable: ${unusable ?? 'it is not known'}` };
        continue;
      }
      const { expression, secrets } = JSON.parse(source) as Pick<CatalogRow, 'expression' | 'secrets'>;
      const aliases = secrets.map(({ alias }) => alias);
      const known = before.get(source);
      const sender = known === undefined ? senderOf(expression ?? '', aliases) : known;
      found.set(source, sender);
      const check = unusable === null ? this.#kindOf(expression, sender) : `unusable: ${unusable}`;
      const former = sender === null ? null : formerCheck(sender, expression ?? '', aliases);
      tables[oid] = { sender: sender?.id ?? null, check, ...(former === null ? {} : { former }) };
    }
    this.#found = found;
    return { base: this.#base, tables };
  }

  #kindOf(expression: string | null, sender: Sender | null): string {
    if (expression === null) return 'none';
    if (sender === null) return 'expression';
    const kind = sender.theme === 'A token' ? 'token' : 'signature';
    return sender.signsUrl && !this.#knowsUrl ? `${kind} of the URL: HEADGATE_PUBLIC_URL is not set` : kind;
  }
}
