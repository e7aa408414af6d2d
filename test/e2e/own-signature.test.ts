/** The blocks of docs/sql/validate.md for a signature of one's own, pasted one after the other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandsOf } from '../support/docs.ts';
import { startHeadgate } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';

test('the documented custom signature works', async (t) => {
  if (['curl', 'openssl', 'sh'].some((tool) => requireTool(t, tool) === null)) return;
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  const page = 'docs/sql/validate.md';
  await client.query(await commandsOf(page, 'own-table'));
  const request = (await commandsOf(page, 'own-request')).replace(
    'localhost:4560',
    `127.0.0.1:${headgate.ports.listen.port}`,
  );
  const sent = (text: string) => run('sh', ['-ec', text.replace('curl', 'curl -sS -w %{http_code}')]);
  assert.match((await sent(request)).stdout, /200$/);
  assert.match((await sent(request.replace('a long random key', 'another'))).stdout, /401$/);
  const { rows } = await client.query(await commandsOf(page, 'own-row'));
  assert.deepEqual(rows, [{ event: 'order.paid', data: { id: 7, status: 'paid' } }]);
});
