import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { Refused } from '../errors/refusals.ts';
import { isWebhookTarget, webhookRoute } from './routes.ts';

function parsed(target: string): string {
  try {
    const { database, schema, table } = webhookRoute(target);
    return `${database}|${schema}|${table}`;
  } catch (error) {
    if (error instanceof Refused) return error.refusal.code;
    throw error;
  }
}

const cases: [target: string, expected: string][] = [
  ['/webhook/dev/public/t', 'dev|public|t'],
  ['/webhook/dev/public/t?x=/../#'.replace('#', ''), 'dev|public|t'],
  ['/webhook/dev/public/t?', 'dev|public|t'],
  ['http://example.com:4560/webhook/dev/public/t?x', 'dev|public|t'],
  ['HTTPS://h/webhook/dev/public/t', 'dev|public|t'],
  ['/webhook/dev/public/a%2Fb', 'dev|public|a/b'],
  ['/webhook/dev/public/a%252Fb', 'dev|public|a%2Fb'],
  ['/webhook/dev/public/%C3%A9', 'dev|public|é'],
  ['/webhook/dev/public/\u00c3\u00a9', 'dev|public|é'],
  ['/webhook/dev/public/My+Table', 'dev|public|My+Table'],
  ['/webhook/dev/public/My%20Table', 'dev|public|My Table'],
  ['/webhook/dev/public/%EF%BB%BFt', 'dev|public|\ufefft'],
  ['/webhook/dev/public/%zz', 'malformed_path'],
  ['/webhook/dev/public/%', 'malformed_path'],
  ['/webhook/dev/public/%e', 'malformed_path'],
  ['/webhook/dev/public/%ff', 'malformed_path'],
  ['/webhook/dev/public/%c0%af', 'malformed_path'],
  ['/webhook/dev/public/%ed%a0%80', 'malformed_path'],
  ['/webhook/dev/public/\u00e9', 'malformed_path'],
  ['/webhook/dev/public/t#f', 'malformed_path'],
  ['/webhook/dev/public/t?a#f', 'malformed_path'],
  ['/webhook/dev/public/', 'not_found'],
  ['/webhook/dev//t', 'not_found'],
  ['/webhook//public/t', 'not_found'],
  ['/webhook/dev/public', 'not_found'],
  ['/webhook/dev/public/t/', 'not_found'],
  ['/webhook/dev/public/t/x', 'not_found'],
  ['/webhook/../public/t', 'not_found'],
  ['/webhook/dev/%2e%2e/t', 'not_found'],
  ['/webhook/dev/./t', 'not_found'],
  ['/webhook/dev/public/a%00', 'not_found'],
  [`/webhook/dev/public/${'x'.repeat(256)}`, 'not_found'],
  [`/webhook/dev/public/${'%41'.repeat(256)}`, 'not_found'],
  ['/Webhook/dev/public/t', 'not_found'],
  ['//webhook/dev/public/t', 'not_found'],
  ['/', 'not_found'],
  ['*', 'not_found'],
  ['', 'not_found'],
];

for (const [target, expected] of cases) {
  test(`webhook target ${JSON.stringify(target.slice(0, 50))} is ${expected}`, () =>
    assert.equal(parsed(target), expected));
}

test('any database, schema and table names survive encoding in a URL', () => {
  const name = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
    .filter((s) => !/\p{Cs}/u.test(s) && !/^\.{1,2}$|\0/.test(s) && Buffer.byteLength(s) < 256);
  fc.assert(
    fc.property(name, name, name, (database, schema, table) => {
      const target = `/webhook/${[database, schema, table].map(encodeURIComponent).join('/')}?q`;
      assert.deepEqual(webhookRoute(target), { database, schema, table });
      assert.ok(isWebhookTarget(target));
    }),
  );
});

test('any bytes as a webhook URL give a table name or a refusal', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      parsed(Buffer.from(bytes).toString('latin1'));
      parsed(`/webhook/d/s/${Buffer.from(bytes).toString('latin1')}`);
    }),
  );
});
