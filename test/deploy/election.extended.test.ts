/** Several operators, one at work: by the lease, on the stand-in for an API server. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import type { Asked } from '../support/kube/api-server.ts';
import {
  changeHeadgate,
  condition,
  createHeadgate,
  eventually,
  startApiServer,
  startOperator,
} from '../support/kube/operators.ts';
import type { ApiServer } from '../support/kube/api-server.ts';

const holder = (server: ApiServer) => {
  const lease = server.store.find(server.where('Lease', 'headgate-operator', 'headgate-operator'));
  return (lease?.['spec'] as { holderIdentity?: string } | undefined)?.holderIdentity ?? null;
};
const isWrite = ({ verb, resource }: Asked) =>
  !['get', 'list', 'watch'].includes(verb) && resource.kind !== 'Lease';

suite('one operator at a time leads', () => {
  test('of two operators one leads and the other writes nothing; a stopped leader releases its lease', async (t) => {
    const server = await startApiServer(t);
    const first = startOperator(t, server, { identity: 'first' });
    await first.says('operator.leading');
    const second = startOperator(t, server, { identity: 'second' });
    await second.says('operator.following');
    createHeadgate(server, 'hooks', {});
    await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^False/));
    assert(!second.said.some((it) => it.kind === 'operator.leading' || it.kind === 'operator.reconciled'));
    const leads = second.says('operator.leading');
    await first.operator.close();
    await leads;
    assert.equal(holder(server), 'second');
    changeHeadgate(server, 'hooks', { logLevel: 'debug' });
    await eventually(server, () =>
      assert.match(JSON.stringify(server.object('StatefulSet', 'hooks')), /"debug"/),
    );
    assert.equal(second.operator.unavailable, null);
  });

  test('an operator cut off from its lease stops its work before another one leads', async (t) => {
    const server = await startApiServer(t);
    const first = startOperator(t, server, { identity: 'first' });
    await first.says('operator.leading');
    const elsewhere = await startApiServer(t, server);
    const second = startOperator(t, elsewhere, { identity: 'second' });
    await second.says('operator.following');
    createHeadgate(server, 'hooks', {});
    await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^False/));
    // Everything else of it would still get through.
    server.fault = ({ resource }) => (resource.kind === 'Lease' ? 'lost before' : null);
    assert(server.watches > 0);
    await second.says('operator.leading');
    assert.equal(server.watches, 0);
    const { length } = server.asked.filter(isWrite);
    changeHeadgate(server, 'hooks', { logLevel: 'debug' });
    await eventually(server, () =>
      assert.match(JSON.stringify(server.object('StatefulSet', 'hooks')), /"debug"/),
    );
    assert.equal(server.asked.filter(isWrite).length, length);
    server.fault = () => null;
    await first.says('operator.following');
    assert.equal(holder(server), 'second');
  });

  test('of ten operators one leads, and one other takes over when the leader vanishes', async (t) => {
    const server = await startApiServer(t);
    const operators = Array.from({ length: 10 }, (_, i) => startOperator(t, server, { identity: `o${i}` }));
    await Promise.race(operators.map((it) => it.says('operator.leading')));
    const leading = () => operators.filter((it) => it.said.some(({ kind }) => kind === 'operator.leading'));
    assert.equal(leading().length, 1);
    // As if its machine had lost power: what it holds is still in its name, and nobody renews it.
    const [leader] = leading();
    const lease = server.where('Lease', 'headgate-operator', 'headgate-operator');
    const others = operators.filter((it) => it !== leader);
    const next = Promise.race(others.map((it) => it.says('operator.leading')));
    await leader?.operator.close();
    server.store.patch(lease, { spec: { holderIdentity: 'o-gone', leaseDurationSeconds: 1 } }, 'test', null);
    await next;
    assert.equal(others.filter((it) => it.said.some(({ kind }) => kind === 'operator.leading')).length, 1);
    assert.match(holder(server) ?? '', /^o\d$/);
  });

  test('an operator is not ready while the API server fails, and leads again when it is back', async (t) => {
    const server = await startApiServer(t);
    const one = startOperator(t, server);
    await one.says('operator.leading');
    server.fault = () => ({ status: 503, reason: 'ServiceUnavailable' });
    await one.says('operator.lease_failed');
    const silent = async () => {
      while (one.operator.unavailable === null) await one.says('operator.lease_failed');
    };
    await silent();
    assert.match(one.operator.unavailable ?? '', /does not answer/);
    const leads = one.says('operator.leading');
    server.fault = () => null;
    await leads;
    assert.equal(one.operator.unavailable, null);
    createHeadgate(server, 'hooks', {});
    await eventually(server, () => assert.match(condition(server, 'hooks', 'Ready'), /^False/));
  });
});
