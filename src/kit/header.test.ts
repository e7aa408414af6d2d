import assert from 'node:assert/strict';
import { test } from 'node:test';
import { firstHeader, onlyHeader } from './header.ts';

const rawHeaders = ['X-Id', 'a', 'host', 'x-id', 'x-ID', 'b', 'Empty', ''];

test("a header is found by name, not in another header's value", () => {
  assert.equal(onlyHeader({ rawHeaders }, 'host'), 'x-id');
  assert.equal(onlyHeader({ rawHeaders }, 'empty'), '');
  assert.equal(onlyHeader({ rawHeaders }, 'nothing'), null);
  assert.equal(onlyHeader({ rawHeaders }, 'x-id'), undefined);
  assert.equal(firstHeader({ rawHeaders }, 'x-id'), 'a');
  assert.equal(firstHeader({ rawHeaders }, 'nothing'), null);
});

test('a header reader that can give one header is not asked for all', () => {
  const asked = {
    get rawHeaders(): readonly string[] {
      throw new Error('all were asked for');
    },
    header: (name: string) => (name === 'host' ? 'h' : null),
  };
  assert.equal(onlyHeader(asked, 'host'), 'h');
  assert.equal(firstHeader(asked, 'x-id'), null);
  assert.equal(firstHeader({ rawHeaders, header: () => undefined }, 'x-id'), 'a');
});
