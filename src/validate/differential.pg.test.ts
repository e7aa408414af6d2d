/**
 * Random expressions over random requests, evaluated by the closure and by a real PostgreSQL 18: values, NULLs and
 * errors are equal. The closure may raise an error where PostgreSQL has a value only if it says so (`exact` false).
 * Some hundreds in the suite, a minute of them in the long run.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import fc from 'fast-check';
import { testDatabase } from '../../test/support/postgres.ts';
import { times } from '../../test/support/sample.ts';
import { cases, expressions } from '../../test/support/validate-generator.ts';
import { compareWithReference, counted } from '../../test/support/validate-differential.ts';
import { Reference } from '../../test/support/validate-postgres.ts';
import { loadParser } from './expression.ts';

const corpusFile = new URL('../../../test/corpus/validate-differential.json', import.meta.url);
const corpus = JSON.parse(readFileSync(corpusFile, 'utf8')) as string[];

/** The reference is version 18 with the locale that Headgate's own databases have; another server says other things. */
const requiredVersion = 180_000;

test('compiled VALIDATE expressions agree with PostgreSQL', async (t) => {
  const database = await testDatabase(t);
  const client = await database.connect();
  const { rows } = await client.query<{ version: number; locale: string }>(
    "select current_setting('server_version_num')::int as version, coalesce(datlocale, datcollate) as locale from pg_database where datname = current_database()",
  );
  if ((rows[0]?.version ?? 0) < requiredVersion || rows[0]?.locale !== 'C.UTF-8')
    return t.skip('not PostgreSQL 18 with C.UTF-8');
  await loadParser();
  const reference = await Reference.open(client);

  await t.test('VALIDATE agrees with PostgreSQL on all earlier differences', async () => {
    const samples = fc.sample(cases, { numRuns: 150, seed: 1 });
    for (const expression of corpus) await compareWithReference(reference, expression, samples);
  });

  await t.test('VALIDATE agrees with PostgreSQL on random expressions', async (t) => {
    const count = counted();
    await fc.assert(
      fc.asyncProperty(expressions, fc.array(cases, { minLength: 4, maxLength: 4 }), (expression, requests) =>
        compareWithReference(reference, expression, requests, count),
      ),
      {
        numRuns: times(600, 1_000_000),
        includeErrorInReport: true,
        interruptAfterTimeLimit: times(30_000, 60_000),
        markInterruptAsFailure: false,
      },
    );
    t.diagnostic(JSON.stringify(count));
    assert.ok(count.values > times(200, 10_000), 'enough expressions came to a value');
  });
});
