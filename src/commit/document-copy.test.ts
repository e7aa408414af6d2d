import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { rowsOf, targetOf } from '../../test/support/rows.ts';
import { copyMessages, groupStatement } from './document-copy.ts';
import { isMeant } from './plan-lock.ts';
import { queryMessage } from './wire-message.ts';

const target = targetOf({
  schema: 'pu"blic',
  table: "o'rd\\ers",
  oid: 7,
  shape: { version: '750.751', columns: [{ name: 'da ta', type: 'jsonb', baseType: 3802, fallback: null }] },
});

test('the COPY messages of a group are one CopyData with exact lengths and rows, and one CopyDone', () => {
  const document = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.constantFrom(32 * 1024, 32 * 1024 + 1, 100_000).map((n) => new Uint8Array(n)),
  );
  fc.assert(
    fc.property(
      fc.array(fc.array(document, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 6 }),
      (groups) => {
        const members = groups.map((documents) => rowsOf(target, ...documents.map((d) => Buffer.from(d))));
        const bytes = Buffer.concat(copyMessages(members));
        assert.equal(bytes.toString('latin1', 0, 1), 'd');
        const end = 1 + bytes.readInt32BE(1);
        assert.deepEqual([...bytes.subarray(end)], [0x63, 0, 0, 0, 4]);
        let at = 5;
        assert.equal(bytes.toString('latin1', at, at + 11), 'PGCOPY\n\xff\r\n\0');
        at += 19;
        for (const wanted of groups.flat()) {
          assert.equal(bytes.readInt16BE(at), 1);
          assert.equal(bytes.readInt32BE(at + 2), wanted.length + 1);
          assert.equal(bytes[at + 6], 1);
          assert(bytes.subarray(at + 7, at + 7 + wanted.length).equals(wanted));
          at += 7 + wanted.length;
        }
        assert.equal(bytes.readInt16BE(at), -1);
        assert.equal(at + 2, end);
      },
    ),
  );
});

const facts = { role: 'hg', path: '"$user", public', commit: 'on', apart: false };

test('COPY statements quote names, and quote them again inside string literals', () => {
  const { sql } = groupStatement(target, { commit: 'as it is', timeoutMs: null }, facts, false);
  assert(sql.includes(String.raw`copy "pu""blic"."o'rd\ers" ("da ta") from stdin (format binary)`), sql);
  assert(sql.includes(String.raw`headgate.confirm( E'"pu""blic"."o''rd\\ers"', 7, '750.751', 10)`), sql);
  assert(
    !sql.includes('synchronous_commit') && sql.includes(`(format binary) where ${isMeant(target)}; select`),
  );
  assert(
    groupStatement(target, { commit: 'off', timeoutMs: null }, facts, false).sql.startsWith(
      'set local synchronous_commit = off; lock table only ',
    ),
  );
});

test('the COPY of a group has a volatile condition with logical decoding, so that each row gets its own WAL record', () => {
  const { sql } = groupStatement(
    target,
    { commit: 'as it is', timeoutMs: null },
    { ...facts, apart: true },
    false,
  );
  assert.match(sql, /format binary\) where .* and pg_catalog\.float8ge\(pg_catalog\.random\(\), '0'\);/);
});

test('a Query message holds its text as UTF-8 and its length', () => {
  const message = queryMessage("select 'ä'");
  assert.equal(message.readInt32BE(1), message.length - 1);
  assert.equal(message.toString('utf8', 5, message.length - 1), "select 'ä'");
  assert.equal(message[message.length - 1], 0);
});
