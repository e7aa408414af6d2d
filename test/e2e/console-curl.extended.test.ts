/** A request of a stranger that is copied as curl, and pasted into a shell, is sent as it was, and nothing else happens. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { curlOf } from '../../src/console/curl.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';

test("the console's curl command sends one request with the same bytes", async (t) => {
  if (requireTool(t, 'curl') === null) return;
  const headgate = await startHeadgate(t);
  const client = await headgate.client(t);
  await client.query(`CREATE TABLE got (data BYTEA) INCLUDE QUERY AS query INCLUDE HEADER 'x-text' AS text
    WITH (connector = 'webhook', format = 'bytes')`);
  const folder = await temporaryFolder(t);
  writeFileSync(join(folder, 'private'), 'a secret of this machine');
  const bodies = [
    `@${join(folder, 'private')}`,
    '{"n":1}\n\ttext, and \'quotes\' "$(id)" `id` \\',
    '\u0003\ntouch owned\n\u001b[31m\u009b\u202e',
    Buffer.from([0, 1, 0xff, 0xfe, 10, 13]),
    '\ufeff{}',
    '',
  ].map((it) => Buffer.from(it));
  for (const body of bodies) {
    const url = `${headgate.webhookUrl}/dev/public/got?of=[1-3]{a,b}`;
    const command = curlOf({ method: 'POST', url, headers: [['x-text', "a'b\u009b\\"]], body });
    // Nothing in it can act on a terminal.
    assert.doesNotMatch(command, /[^\P{Cc}\n\t]|[\p{Cf}\p{Zl}\p{Zp}]/u);
    const { code, stdout } = await run('bash', ['-c', command], { cwd: folder });
    assert.deepEqual([code, stdout], [0, '{"rows":1}']);
  }
  const { rows } = await client.query<{ data: Buffer; query: string; text: string }>('SELECT * FROM got');
  assert.deepEqual(
    rows.map(({ data }) => data.toString('hex')),
    bodies.map((it) => it.toString('hex')),
  );
  for (const { query, text } of rows) assert.deepEqual([query, text], ['of=[1-3]{a,b}', "a'b\u009b\\"]);
});
