/** The catalog room on a real database, with readable seals and a check that knows one word, for tests of its answers. */
import { performance } from 'node:perf_hooks';
import type { TestContext } from 'node:test';
import { Catalog } from '../../src/catalog/catalog.ts';
import type { Target } from '../../src/types/target.ts';
import { limits } from '../../src/config/limits.ts';
import { onEnd } from './cleanup.ts';
import { Spy } from './postgres.ts';
import type { TestDatabase } from './postgres.ts';
import { noKeySets } from './no-key-sets.ts';

/** `VALIDATE AS secret` accepts requests whose target equals the secret s; `all` reads every header. */
export async function openCatalog(t: TestContext, database: TestDatabase) {
  const spy = new Spy();
  const open = (sealed: string, identity: string) => {
    const text = Buffer.from(sealed, 'base64').toString();
    if (!text.startsWith(`${identity}=`)) throw new Error('does not open');
    return text.slice(identity.length + 1);
  };
  const catalog = new Catalog({
    engine: database.engine,
    sealing: {
      seal: (text, identity) => Buffer.from(`${identity}=${text}`).toString('base64'),
      open,
    },
    keys: { make: () => Promise.resolve() },
    compiler: {
      open,
      keySets: noKeySets,
      verifier: undefined,
      publicUrl: null,
      intoHosts: ['rw:4566'],
      compile: (expression, _payload, secrets) => ({
        check: (request) => expression === 'secret' && request.target === secrets.get('s'),
        headers: expression === 'all' ? null : ['x-signature'],
      }),
    },
    limits,
    observe: spy.observe,
    clock: () => performance.now(),
  });
  onEnd(t, 'catalog', () => catalog.close());
  const find = async (table: string, schema = 'public'): Promise<Target> =>
    catalog.find({ database: database.name, schema, table });
  return { catalog, spy, find };
}
