/** The states of a certificate, with a store and an authority made by the test. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { onEnd } from '../../test/support/cleanup.ts';
import { until } from '../../test/support/until.ts';
import { deferred } from '../kit/promises.ts';
import { limits } from '../config/limits.ts';
import type { Observation } from '../observe/observations.ts';
import { AcmeError } from './authority.ts';
import { challengeCertificate, newKey } from './certificates.ts';
import type { Certificate } from './certificates.ts';
import { CertificateRenewal } from './renewal.ts';
import type { RenewalOptions } from './renewal.ts';
import { nothing } from './certificate-state.ts';
import type { CertificateState, Store } from './certificate-state.ts';

const domains = ['a.example.com'];
const bornMs = Date.parse('2026-01-02T00:00:00Z');
const certificateAt = (ms: number): Certificate => challengeCertificate('a.example.com', 'x', ms);

interface World {
  kept: CertificateState;
  now: number;
  make: RenewalOptions['make'];
  store: Partial<Store>;
}

function keeperOf(t: TestContext, world: Partial<World> = {}) {
  const it: World = {
    kept: nothing,
    now: bornMs,
    make: async () => certificateAt(it.now),
    store: {},
    ...world,
  };
  const said: Observation[] = [];
  const shown: [string | null, number][] = [];
  const store: Store = {
    isShared: false,
    read: async () => it.kept,
    begin: async () => it.kept,
    keep: async (state) => {
      it.kept = state;
      return true;
    },
    ...it.store,
  };
  const keeper = new CertificateRenewal({
    domains,
    store,
    make: (...args) => it.make(...args),
    show: async (certificate, challenges) => void shown.push([certificate?.key ?? null, challenges.length]),
    observe: (observation) => said.push(observation),
    now: () => it.now,
    random: () => 0,
  });
  onEnd(t, 'keeper', () => keeper.close());
  const kinds = () => said.map(({ kind }) => kind.replace('certificate.', ''));
  return { it, keeper, shown, kinds, said, told: (n: number) => until(() => said.length >= n) };
}

suite('certificate renewal requests, keeps and renews one certificate', () => {
  test('certificate renewal requests a missing certificate, serves the challenges meanwhile, and then waits', async (t) => {
    const challenge = { domain: 'a.example.com', token: 't', authorization: 't.x' };
    const accounts: string[] = [];
    const { it, keeper, shown, kinds, told } = keeperOf(t, {
      make: async (account, publish) => {
        accounts.push(account);
        assert.equal(it.kept.account, account, 'the account is kept before anybody knows of it');
        await publish([challenge]);
        assert.equal(keeper.answer('t'), 't.x');
        assert.equal(keeper.standing.state, 'asking');
        return certificateAt(it.now);
      },
    });
    assert.equal(keeper.standing.state, 'due');
    await told(2);
    assert.deepEqual(kinds(), ['asked', 'made']);
    await until(() => keeper.standing.state === 'valid');
    assert.equal(keeper.standing.validUntil, '2026-01-02T00:05:00.000Z');
    assert.equal(keeper.answer('t'), null);
    assert.deepEqual(
      shown.map(([, challenges]) => challenges),
      [0, 0, 1, 0],
    );
    // A third of its life is left; the account is the same.
    it.now = bornMs + limits.acmeAttemptMs * 0.7;
    keeper.retry();
    await told(4);
    assert.equal(accounts.length, 2);
    assert.equal(accounts[0], accounts[1]);
  });

  test('a failed certificate renewal keeps the old certificate, is reported, and is repeated after its pause or on demand', async (t) => {
    const certificate = certificateAt(bornMs);
    const world = keeperOf(t, {
      kept: { ...nothing, account: newKey(), certificate },
      now: bornMs + limits.acmeAttemptMs * 0.8,
      make: async () => {
        throw new AcmeError('it\u0000 has no time', 60 * 60_000);
      },
    });
    const { it, keeper, said, told } = world;
    await told(2);
    const failed = said.at(-1);
    assert(failed?.kind === 'certificate.failed');
    assert.deepEqual([failed.failures, failed.reason, failed.pauseMs], [1, 'it has no time', 60 * 60_000]);
    assert.equal(it.kept.certificate, certificate);
    assert.deepEqual([keeper.standing.state, keeper.standing.reason], ['waiting', 'it has no time']);
    it.make = async () => certificateAt(it.now);
    keeper.retry();
    await told(4);
    assert.equal(said.at(-1)?.kind, 'certificate.made');
    assert.deepEqual([it.kept.failures, it.kept.reason, it.kept.notBeforeMs], [0, null, 0]);
  });

  test('certificate renewal waits at a start until the pause of the previous process is over', async (t) => {
    const { keeper, kinds } = keeperOf(t, {
      kept: { ...nothing, failures: 3, reason: 'no', notBeforeMs: bornMs + 1 },
    });
    await until(() => keeper.standing.failures === 3);
    assert.deepEqual(kinds(), []);
    assert.equal(keeper.standing.state, 'waiting');
  });

  test('certificate renewal makes no request while another Headgate requests or has renewed the certificate', async (t) => {
    let begun = 0;
    const busy = keeperOf(t, { store: { begin: async () => (begun++, null) } });
    await until(() => begun > 0);
    await busy.keeper.close();
    assert.deepEqual(busy.kinds(), []);

    const quicker: CertificateState = { ...nothing, certificate: certificateAt(bornMs) };
    const late = keeperOf(t, { store: { begin: async () => quicker } });
    await until(() => late.it.kept === quicker);
    await late.keeper.close();
    assert.deepEqual(late.kinds(), []);
  });

  test('certificate renewal stores nothing after its claim has expired', async (t) => {
    const { kinds, told, shown } = keeperOf(t, { store: { keep: async () => false } });
    await told(2);
    assert.deepEqual(kinds(), ['asked', 'failed']);
    assert(shown.every(([key]) => key === null));
  });

  test('certificate renewal reports an unreadable store once and requests nothing', async (t) => {
    let reads = 0;
    const read = async () => {
      reads += 1;
      throw new Error('away');
    };
    const { keeper, kinds } = keeperOf(t, { store: { read } });
    for (const count of [1, 2, 3]) {
      await until(() => reads >= count && keeper.standing.reason === 'away');
      keeper.retry();
    }
    assert.deepEqual(kinds(), ['unkept']);
  });

  test('certificate renewal stopped during an attempt does not count it as failed', async (t) => {
    const begun = deferred<void>();
    const { it, keeper, kinds } = keeperOf(t, {
      make: (_account, _publish, signal) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new AcmeError('aborted')), { once: true });
          begun.resolve();
        }),
    });
    await begun.promise;
    await keeper.close();
    assert.deepEqual(kinds(), ['asked']);
    assert.equal(it.kept.failures, 0);
  });
});
