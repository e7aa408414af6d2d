import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testRooms, toBytes, utf8 } from '../../test/support/ddl-rooms.ts';
import { createRewriter } from './rewrite.ts';

const rewritten = (sql: string): string => {
  const result = createRewriter(testRooms())(toBytes(sql), utf8);
  assert.equal(result?.kind, 'rewritten', `${sql}: ${JSON.stringify(result)}`);
  return result?.kind === 'rewritten' ? `${result.sql} ⇒ ${result.tags.join()}` : '';
};

test('CREATE, DROP and SHOW TOKEN become calls that hold no token', () => {
  assert.equal(
    rewritten(
      `create token web for insert on clickstream, app."My Table" with (origins = 'https://a.example, http://localhost:3000', rate = '100/s burst 5')`,
    ),
    'SELECT * FROM headgate.create_token($hg$web$hg$, ARRAY[($hg$"clickstream"$hg$::pg_catalog.text)::pg_catalog.regclass, ' +
      '($hg$"app"."My Table"$hg$::pg_catalog.text)::pg_catalog.regclass], $hg$["https://a.example","http://localhost:3000"]$hg$, $hg$100/s burst 5$hg$) ⇒ CREATE TOKEN',
  );
  assert.match(rewritten('CREATE TOKEN w FOR INSERT ON t'), /, \$hg\$\[\]\$hg\$, NULL\)/);
  assert.equal(
    rewritten('DROP TOKEN IF EXISTS "W"'),
    'CALL headgate.ask($hg$drop token$hg$, $hg${"name":"W","ifExists":true}$hg$, pg_catalog.current_schemas(false)) ⇒ DROP TOKEN',
  );
  assert.equal(rewritten('SHOW TOKENS'), 'SELECT * FROM headgate.show_tokens() ⇒ SHOW');
});

test('a malformed token statement is refused at its position', () => {
  const wrong: readonly (readonly [string, string, string])[] = [
    ['CREATE TOKEN', '42601', ''],
    ['CREATE TOKEN w', '42601', ''],
    ['CREATE TOKEN w FOR UPDATE ON t', '42601', 'UPDATE'],
    ["CREATE TOKEN w FOR INSERT ON t WITH (expires = '1 hour')", '22023', 'expires'],
    ...['0 seconds', '2 days', 'soon', '1', '-1 hour', '1 month', '99999999 seconds', ''].map(
      (it) => [`CREATE TOKEN w FOR SELECT ON t WITH (expires = '${it}')`, '22023', `'${it}`] as const,
    ),
    ['CREATE TOKEN w FOR INSERT ON t,', '42601', ''],
    ["CREATE TOKEN w FOR INSERT ON t AS 'hgt_mine'", '42601', 'AS'],
    [`CREATE TOKEN ${'w'.repeat(64)} FOR INSERT ON t`, '42622', 'www'],
    [`CREATE TOKEN w FOR INSERT ON ${Array.from({ length: 33 }, (_, i) => `t${i}`).join()}`, '54000', 't0'],
    ["CREATE TOKEN w FOR INSERT ON t WITH (color = 'red')", '22023', 'color'],
    ["CREATE TOKEN w FOR INSERT ON t WITH (rate = 'often')", '22023', "'often'"],
    ...[
      '*',
      'null',
      '',
      'a.example',
      'https://a.example/',
      'https://a.example/x',
      'https://A.example',
      'https://a.example:443',
      'https://user@a.example',
      'https://ä.example',
      'file:///x',
      'data:text/html,x',
      'https://*.a.example',
      `https://${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.${'d'.repeat(60)}.example`,
      'https://a.example,',
      Array.from({ length: 17 }, (_, i) => `https://a${i}.example`).join(),
    ].map(
      (it) =>
        [
          `CREATE TOKEN w FOR INSERT ON t WITH (origins = '${it}')`,
          it.includes('a16') ? '54000' : '22023',
          `'${it}`,
        ] as const,
    ),
  ];
  for (const [sql, sqlstate, at] of wrong) {
    const result = createRewriter(testRooms())(toBytes(sql), utf8);
    assert.equal(result?.kind, 'error', sql);
    if (result?.kind !== 'error') continue;
    assert.equal(result.error.sqlstate, sqlstate, sql);
    const position = (result.error.position ?? 0) - 1;
    assert.ok(toBytes(sql).slice(position).startsWith(toBytes(at)), `${sql}: ${position}`);
  }
});
