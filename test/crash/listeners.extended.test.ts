/** Listener processes that are killed, a main process that is, and one that is asked to stop: nothing answered is lost. */
import assert from 'node:assert/strict';
import { setTimeout as delay } from 'node:timers/promises';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { sharedHeadgate, spawnHeadgate, startHeadgate, temporaryFolder } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { Ledger } from '../support/ledger.ts';
import { isRunning } from '../support/is-running.ts';
import { listenerProcesses, logOf, metricsOf, postAlone } from '../support/listeners.ts';
import { times } from '../support/sample.ts';
import { within } from '../support/within.ts';

const env = { HEADGATE_LISTENERS: '2' };
const secret = 'crash test';
const senders = times(8, 16);

/** Of those that the main process outlives: one that was killed has come back before the next test begins. */
const shared = sharedHeadgate({ env });

const serving = (headgate: Headgate) =>
  within(10_000, async () =>
    assert.equal((await metricsOf(headgate)).get('headgate_listener_processes{state="serving"}'), 2),
  );

async function underLoad(t: TestContext, headgate: Headgate) {
  const client = await headgate.client(t);
  await client.query(`
    DROP TABLE IF EXISTS ledger; DROP SECRET IF EXISTS s; CREATE SECRET s WITH (backend = 'meta') AS '${secret}';
    CREATE TABLE ledger (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET s AS
      secure_compare(headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(s, data, 'sha256'), 'hex'))`);
  const ledger = new Ledger(secret);
  onEnd(t, 'ledger', () => ledger.close());
  const load = { url: `${headgate.webhookUrl}/dev/public/ledger` as string | null };
  const running = ledger.run(() => load.url, senders);
  /** Resolves when so many more were answered 200. */
  const more = async (count: number) => {
    const before = ledger.committed;
    await within(20_000, async () => {
      await delay(5);
      assert.ok(ledger.committed >= before + count);
    });
  };
  return { client, ledger, load, running, more };
}

suite('listener processes survive kills, hangs and signals', () => {
  test('a killed listener process loses its connections, no answered request, and is restarted', async (t) => {
    const headgate = await shared();
    await serving(headgate);
    const { client, ledger, running, more } = await underLoad(t, headgate);
    const restarts = async () => (await metricsOf(headgate)).get('headgate_listener_restarts_total') ?? 0;
    const restartsBefore = await restarts();
    const rows = 'headgate_rows_total{database="dev",schema="public",table="ledger"}';
    let seen = 0;
    const rounds = times(1, 6);
    for (let round = 0; round < rounds; round++) {
      await more(100);
      const victim = listenerProcesses(headgate.child.pid ?? 0)[round % 2]?.pid ?? 0;
      process.kill(victim, 'SIGKILL');
      await more(100);
      const counted = (await metricsOf(headgate)).get(rows) ?? 0;
      assert.ok(counted >= seen, `${counted} after ${seen}`);
      seen = counted;
      await within(10_000, async () => {
        const log = logOf(headgate);
        const lost = log.find((line) => line.kind === 'listener.lost' && line.pid === victim);
        assert.match(lost?.reason ?? '', /SIGKILL/);
      });
      await serving(headgate);
      assert.equal((await asked(`${headgate.adminUrl}/readyz`)).status, 200);
    }
    assert.equal((await restarts()) - restartsBefore, rounds);
    ledger.stop();
    await running;
    const tally = await ledger.tally(client, 'ledger');
    assert.deepEqual(
      { lost: tally.lost, surplus: tally.surplus, odd: ledger.odd },
      { lost: [], surplus: [], odd: [] },
    );
    // Those that were on the connections of a process that was killed.
    assert.ok(tally.unanswered <= rounds * senders, String(tally.unanswered));
  });

  test('requests that arrive while all listener processes are dead wait and are served', async (t) => {
    const headgate = await shared();
    await serving(headgate);
    const { client, ledger, running, more } = await underLoad(t, headgate);
    await more(100);
    for (const { pid } of listenerProcesses(headgate.child.pid ?? 0)) process.kill(pid, 'SIGKILL');
    await more(200);
    ledger.stop();
    await running;
    const tally = await ledger.tally(client, 'ledger');
    assert.deepEqual([tally.lost, tally.surplus, ledger.odd], [[], [], []]);
    // One connection each was cut; whoever came while none served was not turned away.
    assert.ok(tally.unanswered <= 2 * senders, String(tally.unanswered));
  });

  test('connections for a hung and killed listener process are served by the other', async (t) => {
    const headgate = await shared();
    await serving(headgate);
    await (await headgate.client(t)).query(`CREATE TABLE t (data JSONB) WITH (connector = 'webhook')`);
    const url = `${headgate.webhookUrl}/dev/public/t`;
    const victim = listenerProcesses(headgate.child.pid ?? 0)[0]?.pid ?? 0;
    process.kill(victim, 'SIGSTOP');
    let answered = 0;
    const requests = Array.from({ length: 12 }, () =>
      postAlone(url, '{}', {}).then(
        (status) => {
          answered += 1;
          return status;
        },
        () => 0,
      ),
    );
    // The other one has answered its half; what is left is on its way to one that does not read.
    await within(5_000, async () => {
      await delay(5);
      assert.equal(answered, 6);
    });
    process.kill(victim, 'SIGKILL');
    const statuses = await Promise.all(requests);
    // Of the one whose message was written nobody knows whether it was read.
    assert.ok(statuses.filter((status) => status === 200).length >= 11, String(statuses));
  });

  test('listener processes end by themselves when the main process is killed, and it can be started again at once', async (t) => {
    const dataDir = await temporaryFolder(t);
    let headgate = await startHeadgate(t, { env, dataDir });
    const { ledger, load, running, more } = await underLoad(t, headgate);
    for (let round = 0; round < times(1, 3); round++) {
      await more(100);
      const orphans = listenerProcesses(headgate.child.pid ?? 0);
      assert.equal(orphans.length, 2);
      load.url = null;
      await headgate.signal('SIGKILL');
      headgate = await (await spawnHeadgate(t, { env, dataDir })).ready();
      load.url = `${headgate.webhookUrl}/dev/public/ledger`;
      assert.deepEqual(
        orphans.filter(({ pid }) => isRunning(pid)),
        [],
      );
    }
    await more(100);
    ledger.stop();
    await running;
    const tally = await ledger.tally(await headgate.client(t), 'ledger');
    assert.deepEqual([tally.lost, tally.surplus], [[], []]);
  });

  test('listener processes ignore a signal to the group, and drain when the main process says so', async (t) => {
    const dataDir = await temporaryFolder(t);
    const headgate = await startHeadgate(t, { env, dataDir });
    const { ledger, load, running, more } = await underLoad(t, headgate);
    await more(100);
    const processes = listenerProcesses(headgate.child.pid ?? 0);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      for (const { pid } of processes) process.kill(pid, signal);
    }
    await more(200);
    assert.equal(
      processes.every(({ pid }) => isRunning(pid)),
      true,
    );
    const before = ledger.committed;
    assert.equal((await headgate.signal('SIGTERM')).code, 0);
    load.url = null;
    assert.ok(ledger.committed > before);
    assert.equal(
      processes.some(({ pid }) => isRunning(pid)),
      false,
    );
    ledger.stop();
    await running;
    assert.deepEqual(
      logOf(headgate).filter((line) => line.kind === 'listener.lost'),
      [],
    );
    const again = await startHeadgate(t, { dataDir });
    const tally = await ledger.tally(await again.client(t), 'ledger');
    assert.deepEqual([tally.lost, tally.surplus, ledger.odd], [[], [], []]);
  });
});
