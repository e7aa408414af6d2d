/** The document is valid OpenAPI and describes the gateway's answers. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { openTestGateway, request } from '../../test/support/gateway.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { openapiDocument } from './openapi.ts';

interface Operation {
  readonly requestBody?: { readonly content: Readonly<Record<string, unknown>> };
  readonly responses: Readonly<
    Record<
      string,
      {
        readonly headers: Readonly<Record<string, unknown>>;
        readonly content: { readonly 'application/json': { readonly schema: Schema } };
      }
    >
  >;
}

interface Schema {
  readonly anyOf?: readonly Schema[];
  readonly properties?: { readonly code: { readonly enum: readonly string[] } };
}

suite('the OpenAPI document agrees with the gateway', () => {
  const document = openapiDocument('1.2.3', true);
  const { paths } = document as { paths: Record<string, Record<string, Operation>> };

  test('the OpenAPI document is valid with a token and without', async () => {
    for (const asksForToken of [true, false]) {
      const checked = await new Validator().validate(
        structuredClone(openapiDocument('1', asksForToken)) as Record<string, unknown>,
      );
      assert.deepEqual([checked.valid, checked.errors], [true, undefined]);
    }
  });

  test('the OpenAPI document has request bodies, and every response with its codes', () => {
    assert.deepEqual(Object.keys(paths['/v1/events']?.['post']?.requestBody?.content ?? {}), [
      'application/json',
      'application/x-ndjson',
    ]);
    assert.deepEqual(Object.keys(paths['/v1/sql']?.['post']?.requestBody?.content ?? {}), [
      'application/json',
      'text/plain',
    ]);
    const statuses = (path: string, method: string) => Object.keys(paths[path]?.[method]?.responses ?? {});
    const always = [400, 403, 405, 408, 414, 415, 417, 429, 431, 500, 503];
    const sorted = (all: number[]) => all.toSorted((a, b) => a - b).map(String);
    assert.deepEqual(statuses('/v1/events', 'post'), sorted([200, ...always, 401, 404, 413, 422]));
    assert.deepEqual(statuses('/v1/sql', 'post'), sorted([200, ...always, 401, 404, 413]));
    assert.deepEqual(statuses('/v1/healthz', 'get'), sorted([200, ...always]));
    for (const [path, methods] of Object.entries(paths)) {
      for (const { responses } of Object.values(methods)) {
        for (const status of ['429', '503'])
          assert('Retry-After' in (responses[status]?.headers ?? {}), path);
      }
    }
  });

  test('the OpenAPI document describes what the gateway answers', async (t) => {
    const gateway = await openTestGateway(t, await testDatabase(t));
    await gateway.rows('CREATE TABLE t (id int)');
    const answers = [
      ['/v1/events', await gateway.events('name=t', '{"id":"x"}')],
      ['/v1/events', await gateway.events('name=nope', '{}')],
      ['/v1/events', await gateway.events('name=t&database=nope', '{}')],
      ['/v1/events', await gateway.events('', '{}')],
      ['/v1/events', await gateway.events('name=t', '[]')],
      ['/v1/sql', await gateway.sql('')],
      ['/v1/sql', await gateway.sql('SELECT', '/v1/sql', { headers: { 'content-encoding': 'br' } })],
      ['/v1/sql', await gateway.sql('SELECT', '/v1/sql', { method: 'PUT' })],
    ] as const;
    for (const [path, { status, json }] of answers) {
      const response = paths[path]?.['post']?.responses[String(status)];
      const schema = response?.content['application/json'].schema;
      const codes = (schema?.anyOf?.[0] ?? schema)?.properties?.code.enum ?? [];
      assert(codes.includes(json.code ?? ''), `${path} ${status} ${json.code}: ${codes.join(' ')}`);
    }
    const served = await request(`${gateway.url}/v1/openapi.json`, {});
    assert.deepEqual(served.json, JSON.parse(JSON.stringify(openapiDocument('0.0.0', false))));
  });
});
