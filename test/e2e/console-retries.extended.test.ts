/** Retries of many requests from the console: what they store, and what is counted of them. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { RetryState } from '../../src/console/api.ts';
import { anyKept } from '../../src/console/request-filter.ts';
import { ask, consoleLink, post } from '../support/console.ts';
import { startHeadgate } from '../support/headgate.ts';
import { within } from '../support/within.ts';

suite('retries of many requests from the console', () => {
  test('what is stored already is not stored again by a retry without the check', async (t) => {
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    const { port } = headgate.ports.admin;
    await client.query(`CREATE SECRET s WITH (backend = 'meta') AS 'a key';
      CREATE TABLE signed (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s USING gitlab`);
    for (let i = 0; i < 3; i++)
      assert.equal((await headgate.post('dev/public/signed', `{"n":${i}}`)).status, 401);
    await within(10_000, async () => {
      const { rows } = await client.query('SELECT FROM headgate.rejected_requests');
      assert.equal(rows.length, 3);
    });
    const [, link = ''] = (await consoleLink(headgate)).split('#t=');
    const { token } = JSON.parse((await post(port, 'login', { link })).text) as { token: string };
    const retried = async (): Promise<RetryState> => {
      assert.equal((await post(port, 'retry', { filter: anyKept, force: true }, token)).status, 200);
      return within(10_000, async () => {
        const { text } = await ask(port, '/console/api/retry', {
          headers: { authorization: `Bearer ${token}` },
        });
        const state = JSON.parse(text) as RetryState;
        assert.equal(state.kind, 'done');
        return state;
      });
    };
    const first = await retried();
    assert.deepEqual([first.total, first.asked, first.outcomes], [3, 3, [['committed', 3]]]);
    const again = await retried();
    assert.deepEqual([again.total, again.asked, again.outcomes], [0, 0, []]);
    assert.deepEqual(again.said, [['stored already', 3]]);
    assert.equal((await client.query('SELECT FROM signed')).rows.length, 3);
  });
});
