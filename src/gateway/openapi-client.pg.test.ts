import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { generate, HttpClient } from 'openapi-typescript-codegen';
import { onEnd } from '../../test/support/cleanup.ts';
import { openTestGateway } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { run } from '../../test/support/run.ts';
import { openapiDocument } from './openapi.ts';

const root = fileURLToPath(new URL('../../../', import.meta.url));

test('a client generated from the OpenAPI document compiles, and a gateway answers it', async (t) => {
  const database = await testDatabase(t);
  const gateway = await openTestGateway(t, database);
  await gateway.rows('CREATE TABLE t (id int)');
  // Below the project, so that the compiler finds the types of the platform.
  await mkdir(join(root, 'dist'), { recursive: true });
  const folder = await mkdtemp(join(root, 'dist', 'openapi-client-'));
  onEnd(t, 'client', () => rm(folder, { recursive: true }));
  await generate({
    input: openapiDocument('1.2.3', true) as Record<string, unknown>,
    output: join(folder, 'client'),
    httpClient: HttpClient.FETCH,
  });
  await writeFile(join(folder, 'package.json'), '{"type":"commonjs"}');
  await writeFile(
    join(folder, 'main.ts'),
    `import { DefaultService, OpenAPI } from './client/index';
       export async function main(base: string): Promise<unknown> {
         OpenAPI.BASE = base;
         const stored = await DefaultService.insertEvents('t', { id: 7 }, undefined, 'skip', 'error');
         const rows: number = stored.rows;
         const { columns, rowsAffected } = await DefaultService.runSql({ sql: 'SELECT id FROM t WHERE id = $1', params: [7] });
         const names: string[] = columns.map(({ name }) => name);
         // @ts-expect-error There is no such value.
         void (() => DefaultService.insertEvents('t', {}, undefined, 'Skip'));
         // @ts-expect-error A statement has no such member.
         void (() => DefaultService.runSql({ query: 'SELECT 1' }));
         return { rows, names, rowsAffected };
       }`,
  );
  const options = [
    '--ignoreConfig',
    '--strict',
    '--skipLibCheck',
    '--module',
    'commonjs',
    '--target',
    'es2022',
  ];
  const types = ['--lib', 'es2022,dom,dom.iterable', '--types', 'node', '--moduleResolution', 'bundler'];
  const tsc = join(root, 'node_modules', '.bin', 'tsc');
  const { code, stdout } = await run(tsc, [...options, ...types, join(folder, 'main.ts')]);
  assert.equal(code, 0, stdout);
  const { default: made } = (await import(pathToFileURL(join(folder, 'main.js')).href)) as {
    default: { main: (base: string) => Promise<unknown> };
  };
  assert.deepEqual(await made.main(gateway.url), { rows: 1, names: ['id'], rowsAffected: 1 });
});
