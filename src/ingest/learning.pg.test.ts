import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import type { Client } from 'pg';
import { holdsTable } from '../../test/support/state-table.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { migrate, readMigrations } from '../catalog/migrate.ts';

/** The secret of one cell of the table: a new one each time, learned by the functions that Headgate calls. */
class Bench {
  readonly #client: Client;
  readonly #name = `s_${randomUUID()}`;
  /** The seal under which the catalog was read. */
  #known = '';

  constructor(client: Client) {
    this.#client = client;
  }

  async make(seconds: string | null): Promise<this> {
    this.#known = randomUUID();
    await this.#ask('create', this.#known, seconds === null ? 'given' : 'empty', seconds);
    return this;
  }

  /** As CREATE and ALTER SECRET do. */
  async #ask(how: string, sealId: string, sealed: string, learnSeconds: string | null): Promise<void> {
    const given = {
      schema: 'public',
      name: this.#name,
      backend: 'meta',
      sealId,
      sealed,
      forms: [],
      learnSeconds,
    };
    await this.#client.query(`call headgate.ask($1, $2)`, [
      `${how} secret`,
      { ifNotExists: false, ...given },
    ]);
  }

  /** The window is over. */
  async close(): Promise<this> {
    await this.#client.query(
      `update headgate.secret_learning l set until = now() - interval '1 second' from headgate.secret s
       where s.id = l.secret_id and s.name = $1`,
      [this.#name],
    );
    return this;
  }

  async learn(): Promise<string> {
    const { rows } = await this.#client.query<{ outcome: string; sealed: string | null }>(
      `select outcome, sealed from headgate.learn_secret($1, $2, 'brought', '192.0.2.1')`,
      [this.#known, randomUUID()],
    );
    return rows.map(({ outcome, sealed }) => `${outcome}${sealed === null ? '' : ` ${sealed}`}`).join();
  }

  async contest(): Promise<string> {
    await this.#client.query(
      `select headgate.contest_secret((select seal_id from headgate.secret where name = $1), '192.0.2.2')`,
      [this.#name],
    );
    return '';
  }

  async reveal(): Promise<string> {
    const { rows } = await this.#client.query<{ sealed: string }>(
      `select sealed from headgate.reveal_learned('public', $1)`,
      [this.#name],
    );
    return rows.map(({ sealed }) => `shows ${sealed}`).join() || 'shows nothing';
  }

  async keepCertificate(): Promise<string> {
    const { rows } = await this.#client.query<{ kept: boolean }>(
      `select headgate.keep_certificate((select seal_id from headgate.secret where name = $1), $2, 'certificate', 'host') as kept`,
      [this.#name, randomUUID()],
    );
    return rows[0]?.kept === true ? 'kept' : 'not kept';
  }

  async give(): Promise<string> {
    await this.#ask('alter', randomUUID(), 'given anew', null);
    return '';
  }

  async open(): Promise<string> {
    await this.#ask('alter', randomUUID(), 'empty', '600');
    return '';
  }

  /** What was answered, what the secret holds now, and what its owner is told of it. */
  async after(happens: Promise<string>): Promise<string> {
    const answer = await happens;
    const { rows } = await this.#client.query<{ sealed: string; told: string | null }>(
      `select s.sealed, f."Learned" as told from headgate.secret s join headgate.show_secrets() f on f."Name" = s.name
       where s.name = $1`,
      [this.#name],
    );
    const { sealed = 'gone', told = null } = rows[0] ?? {};
    const words = told
      ?.replaceAll(/ (?:until|at) [\d-]+ [\d:+-]+/g, '')
      .replaceAll(/: ALTER SECRET .* again/g, '');
    return [answer, sealed, words].filter((it) => it !== '' && it !== undefined).join(', ');
  }
}

test('the state table of a secret learned from its sender holds in every state at every event', async (t) => {
  const client = await (await testDatabase(t, { catalog: true })).connect();
  await migrate(client, readMigrations());
  const made = (seconds: string | null) => new Bench(client).make(seconds);
  const learned = async () => {
    const it = await made('600');
    await it.learn();
    return it;
  };
  const contested = async () => {
    const it = await learned();
    await it.contest();
    return it;
  };
  const revealed = async () => {
    const it = await learned();
    await it.reveal();
    return it;
  };
  const twice = 'learned from 192.0.2.1; contested: another value came from 192.0.2.2';
  // Its owner begins anew, whatever was before.
  const byOwner = {
    'its owner gives a value': 'given anew',
    'its owner opens the window': 'empty, learning',
  };
  await holdsTable(
    {
      given: {
        'a value comes': 'closed, given',
        'another value comes': 'given',
        'its owner asks for it': 'shows nothing, given',
        'a certificate was fetched': 'not kept, given',
        ...byOwner,
      },
      open: {
        'a value comes': 'learned, brought, learned from 192.0.2.1',
        'another value comes': 'empty, learning; contested: another value came from 192.0.2.2',
        'its owner asks for it': 'shows nothing, empty, learning',
        'a certificate was fetched': 'kept, certificate, learned from host',
        ...byOwner,
      },
      'closed, nothing learned': {
        'a value comes': 'closed, empty, nothing learned',
        'another value comes': 'empty, nothing learned',
        'its owner asks for it': 'shows nothing, empty, nothing learned',
        'a certificate was fetched': 'kept, certificate, learned from host',
        ...byOwner,
      },
      learned: {
        'a value comes': 'taken brought, brought, learned from 192.0.2.1',
        'another value comes': `brought, ${twice}`,
        'its owner asks for it': 'shows brought, brought, learned from 192.0.2.1',
        'a certificate was fetched': 'kept, certificate, learned from host',
        ...byOwner,
      },
      'learned, contested': {
        'a value comes': `taken brought, brought, ${twice}`,
        'another value comes': `brought, ${twice}`,
        'its owner asks for it': `shows brought, brought, ${twice}`,
        'a certificate was fetched':
          'kept, certificate, learned from host; contested: another value came from 192.0.2.2',
        ...byOwner,
      },
      'learned, shown': {
        'a value comes': 'taken brought, brought, learned from 192.0.2.1',
        'another value comes': `brought, ${twice}`,
        'its owner asks for it': 'shows nothing, brought, learned from 192.0.2.1',
        'a certificate was fetched': 'kept, certificate, learned from host',
        ...byOwner,
      },
      'learned, closed': {
        'a value comes': 'closed, brought, learned from 192.0.2.1',
        'another value comes': 'brought, learned from 192.0.2.1',
        'its owner asks for it': 'shows brought, brought, learned from 192.0.2.1',
        'a certificate was fetched': 'kept, certificate, learned from host',
        ...byOwner,
      },
    },
    {
      given: () => made(null),
      open: () => made('600'),
      'closed, nothing learned': async () => (await made('600')).close(),
      learned,
      'learned, contested': contested,
      'learned, shown': revealed,
      'learned, closed': async () => (await learned()).close(),
    },
    {
      'a value comes': (it) => it.after(it.learn()),
      'another value comes': (it) => it.after(it.contest()),
      'its owner asks for it': (it) => it.after(it.reveal()),
      'a certificate was fetched': (it) => it.after(it.keepCertificate()),
      'its owner gives a value': (it) => it.after(it.give()),
      'its owner opens the window': (it) => it.after(it.open()),
    },
  );
});
