/** What somebody sees who starts Headgate in a terminal and sends it something. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { sampleOf } from '../support/sample.ts';

/** Resolves when the log has the line. */
function line(headgate: Headgate, wanted: RegExp): Promise<void> {
  return new Promise((resolve) => {
    const look = () => {
      if (!wanted.test(headgate.stderr)) return;
      headgate.child.stderr?.off('data', look);
      resolve();
    };
    headgate.child.stderr?.on('data', look);
    look();
  });
}

suite('the log in format pretty is readable', () => {
  for (const listeners of sampleOf(['1', '2'], 1)) {
    test(
      `HEADGATE_LOG_FORMAT=pretty writes a line per request (listener processes: ${listeners})`,
      { timeout: 60_000 },
      async (t) => {
        const env = { HEADGATE_LOG_FORMAT: 'pretty', HEADGATE_LISTENERS: listeners };
        const headgate = await startHeadgate(t, { env });
        const sql = await headgate.client(t);
        await sql.query(
          "CREATE TABLE seen (data JSONB) WITH (connector = 'webhook') VALIDATE AS secure_compare(headers->>'key', 'k')",
        );
        assert.equal((await headgate.post('dev/public/seen', '{}', { key: 'k' })).status, 200);
        await line(headgate, /^[\d:.]{12} 200 dev\.public\.seen  1 row  [\d.]+ ms$/m);
        assert.equal((await headgate.post('dev/public/seen', '{}')).status, 401);
        await line(headgate, /^[\d:.]{12} 401 dev\.public\.seen  signature_failed  127\.0\.0\.1$/m);
        const many = Array.from({ length: 100 }, () => headgate.post('dev/public/seen', '{}'));
        assert.ok((await Promise.all(many)).every(({ status }) => status === 401));
        await line(headgate, /^[\d:.]{12} and \d+ more, \d+ refused$/m);
      },
    );
  }
});
