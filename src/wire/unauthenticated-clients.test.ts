import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { Newcomers } from './unauthenticated-clients.ts';
import type { Newcomer } from './unauthenticated-clients.ts';

suite('newcomers', () => {
  const room = (max: number) => {
    const gone: string[] = [];
    const newcomers = new Newcomers(max);
    const add = (network: string, name: string): Newcomer => {
      const newcomer = { network, makeWay: () => void gone.push(name) };
      newcomers.add(newcomer);
      return newcomer;
    };
    return { gone, newcomers, add };
  };

  test('the network that has most gives up the one that is silent for longest', () => {
    const { gone, newcomers, add } = room(4);
    add('a', 'a1');
    const b1 = add('b', 'b1');
    add('b', 'b2');
    add('b', 'b3');
    newcomers.moved(b1);
    add('c', 'c1');
    assert.deepEqual(gone, ['b2']);
    // Its own newest one counts.
    add('b', 'b4');
    assert.deepEqual(gone, ['b2', 'b3']);
  });

  test('unauthenticated clients are evicted from the network silent for longest among equally full ones', () => {
    const { gone, newcomers, add } = room(2);
    const a = add('a', 'a');
    add('b', 'b');
    newcomers.moved(a);
    add('c', 'c');
    assert.deepEqual(gone, ['b']);
    newcomers.remove(a);
    newcomers.remove(a);
    newcomers.moved(a);
    add('d', 'd');
    assert.deepEqual(gone, ['b']);
    assert.equal(newcomers.evict(), true);
    assert.equal(newcomers.evict(), true);
    assert.equal(newcomers.evict(), false);
    assert.deepEqual(gone, ['b', 'c', 'd']);
  });
});
