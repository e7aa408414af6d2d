/**
 * Conversations between a client and an engine as both send them, and what must reach the other side of a session whose
 * rewriter is `rewrite`. Bytes are latin1 strings.
 */
import type { RewriteSql } from '../../src/ddl/rewrite.ts';
import type { Rewrite } from '../../src/types/sql.ts';
import { SqlFailure } from '../../src/errors/refusals.ts';

export const m = (type: string, body = ''): string => {
  const header = Buffer.alloc(5, type);
  header.writeInt32BE(body.length + 4, 1);
  return header.toString('latin1') + body;
};
export const q = (sql: string): string => m('Q', `${sql}\0`);
const parse = (name: string, sql: string): string => m('P', `${name}\0${sql}\0\0\0`);
const bind = (portal: string, statement: string): string => m('B', `${portal}\0${statement}\0\0\0\0\0\0\0`);
const execute = (portal: string): string => m('E', `${portal}\0\0\0\0\0`);
const close = (what: string): string => m('C', `${what}\0`);
const sync = m('S');
const copyIn = m('G', '\0\0\0');
const copyDone = m('c');
export const done = (tag: string): string => m('C', `${tag}\0`);
export const ready = m('Z', 'I');
export const inTransaction = m('Z', 'T');
const error = (fields: Record<string, string>): string =>
  m(
    'E',
    `${Object.entries({ S: 'ERROR', V: 'ERROR', ...fields })
      .map(([k, v]) => `${k}${v}\0`)
      .join('')}\0`,
  );

const authenticated = m('R', '\0\0\0\0');
export const started = authenticated + m('S', 'client_encoding\0UTF8\0') + ready;

/**
 * `FOO x` becomes `CALL foo(x)`, which is two bytes longer before the x; `BAD` is refused; `LATE` waits; the
 * replacement of `SOON` is known after a while.
 */
export const rewrite: RewriteSql = (sql) => {
  if (sql.startsWith('BAD')) {
    return { kind: 'error', error: { sqlstate: '42000', message: 'refused', hint: 'do not', position: 5 } };
  }
  if (sql.startsWith('SOON')) return soon(sql);
  const late = sql.startsWith('LATE');
  if (!late && !sql.includes('FOO')) return null;
  return {
    kind: 'rewritten',
    sql: sql.replace(/(FOO|LATE) ([^\s;]+)/, 'CALL foo($2)'),
    tags: sql.split(';').map((part) => (/FOO|LATE/.test(part) ? 'FOO' : null)),
    originalOffset: (offset) => Math.max(0, offset - 5),
    before: !late
      ? null
      : () =>
          sql.includes('fails')
            ? Promise.reject(new SqlFailure({ sqlstate: '0A000', message: 'no' }))
            : Promise.resolve(),
  };
};

function soon(sql: string): Rewrite {
  return {
    kind: 'deferred',
    prepare: async () => {
      await Promise.resolve();
      if (sql.includes('fails')) throw new SqlFailure({ sqlstate: '0A000', message: 'no' });
      return { kind: 'rewritten', sql: 'SELECT x', tags: ['SOON'], originalOffset: () => 5, before: null };
    },
  };
}

/** What each side sends, in order: `>` client, `<` engine. */
export type Script = readonly (readonly ['>' | '<', string])[];

export const transcripts: Record<string, { script: Script; toEngine: string; toClient: string }> = {
  'a plain query passes': {
    script: [
      ['>', q('select 1')],
      ['<', m('T', 'xx') + m('D', 'yyy') + done('SELECT 1') + ready],
    ],
    toEngine: q('select 1'),
    toClient: m('T', 'xx') + m('D', 'yyy') + done('SELECT 1') + ready,
  },
  'a statement among others gets its tag': {
    script: [
      ['>', q('select 1;FOO x;select 2')],
      ['<', done('SELECT 1') + done('CALL') + done('SELECT 1') + ready],
      ['>', q('select 3')],
      ['<', done('SELECT 1') + ready],
    ],
    toEngine: q('select 1;CALL foo(x);select 2') + q('select 3'),
    toClient: done('SELECT 1') + done('FOO') + done('SELECT 1') + ready + done('SELECT 1') + ready,
  },
  'a statement is prepared by name, executed twice and closed': {
    script: [
      ['>', parse('s', 'FOO x') + bind('p', 's') + execute('p') + sync],
      ['<', m('1') + m('2') + done('CALL') + ready],
      ['>', bind('', 's') + m('D', 'P\0') + execute('') + close('Ss') + bind('', 's') + execute('') + sync],
      ['<', m('2') + m('n') + done('CALL') + m('3') + error({ C: '26000', M: 'gone' }) + ready],
      ['>', parse('s', 'select 1') + bind('', 's') + execute('') + sync],
      ['<', m('1') + m('2') + done('SELECT 1') + ready],
    ],
    toEngine:
      parse('s', 'CALL foo(x)') +
      bind('p', 's') +
      execute('p') +
      sync +
      bind('', 's') +
      m('D', 'P\0') +
      execute('') +
      close('Ss') +
      bind('', 's') +
      execute('') +
      sync +
      parse('s', 'select 1') +
      bind('', 's') +
      execute('') +
      sync,
    toClient:
      m('1') +
      m('2') +
      done('FOO') +
      ready +
      m('2') +
      m('n') +
      done('FOO') +
      m('3') +
      error({ C: '26000', M: 'gone' }) +
      ready +
      m('1') +
      m('2') +
      done('SELECT 1') +
      ready,
  },
  'a Parse that fails leaves the named statement as it was': {
    script: [
      ['>', parse('s', 'FOO x') + sync + parse('s', 'select 1') + bind('', 's') + execute('') + sync],
      ['<', m('1') + ready + error({ C: '42P05', M: 'exists' }) + ready],
      ['>', bind('', 's') + execute('') + sync],
      ['<', m('2') + done('CALL') + ready],
    ],
    toEngine:
      parse('s', 'CALL foo(x)') +
      sync +
      parse('s', 'select 1') +
      bind('', 's') +
      execute('') +
      sync +
      bind('', 's') +
      execute('') +
      sync,
    toClient: m('1') + ready + error({ C: '42P05', M: 'exists' }) + ready + m('2') + done('FOO') + ready,
  },
  'a refusal replaces the syntax error, and all messages up to Sync are ignored': {
    script: [
      [
        '>',
        parse('', 'BAD x') +
          bind('', '') +
          execute('') +
          sync +
          parse('', 'FOO y') +
          bind('', '') +
          execute('') +
          sync,
      ],
      [
        '<',
        error({ C: '42601', M: 'syntax error at end of input', P: '2' }) +
          ready +
          m('1') +
          m('2') +
          done('CALL') +
          ready,
      ],
    ],
    toEngine:
      parse('', '!') +
      bind('', '') +
      execute('') +
      sync +
      parse('', 'CALL foo(y)') +
      bind('', '') +
      execute('') +
      sync,
    toClient:
      error({ C: '42000', M: 'refused', H: 'do not', P: '5' }) +
      ready +
      m('1') +
      m('2') +
      done('FOO') +
      ready,
  },
  'a cancelled refusal stays the cancellation': {
    script: [
      ['>', q('BAD x')],
      ['<', error({ C: '57014', M: 'canceled' }) + ready],
    ],
    toEngine: q('!'),
    toClient: error({ C: '57014', M: 'canceled' }) + ready,
  },
  'a statement waiting for its preparation keeps its place, and a refused one is an error': {
    script: [
      ['>', q('LATE x') + q('select 1') + q('LATE fails') + q('select 2')],
      ['<', done('CALL') + ready + done('SELECT 1') + ready],
      ['<', error({ C: '42601', M: 'syntax error' }) + ready + done('SELECT 1') + ready],
    ],
    toEngine: q('CALL foo(x)') + q('select 1') + q('!') + q('select 2'),
    toClient:
      done('FOO') +
      ready +
      done('SELECT 1') +
      ready +
      error({ C: '0A000', M: 'no' }) +
      ready +
      done('SELECT 1') +
      ready,
  },
  'a statement decided later keeps its place in both protocols': {
    script: [
      ['>', q('SOON') + parse('', 'SOON') + bind('', '') + execute('') + sync + q('SOON fails')],
      ['<', done('SELECT 1') + ready + m('1') + m('2') + done('SELECT 1') + ready],
      ['<', error({ C: '42601', M: 'syntax error' }) + ready],
    ],
    toEngine: q('SELECT x') + parse('', 'SELECT x') + bind('', '') + execute('') + sync + q('!'),
    toClient:
      done('SOON') + ready + m('1') + m('2') + done('SOON') + ready + error({ C: '0A000', M: 'no' }) + ready,
  },
  'a COPY ignores the Sync behind its Execute, as libpq sends it': {
    script: [
      ['>', parse('', 'copy t from stdin') + bind('', '') + m('D', 'P\0') + execute('') + sync],
      ['<', m('1') + m('2') + m('n') + copyIn],
      ['>', m('d', 'row') + copyDone + sync + q('FOO x') + q('select 1')],
      ['<', done('COPY 1') + ready + done('CALL') + ready + done('SELECT 1') + ready],
    ],
    toEngine:
      parse('', 'copy t from stdin') +
      bind('', '') +
      m('D', 'P\0') +
      execute('') +
      sync +
      m('d', 'row') +
      copyDone +
      sync +
      q('CALL foo(x)') +
      q('select 1'),
    toClient:
      m('1') +
      m('2') +
      m('n') +
      copyIn +
      done('COPY 1') +
      ready +
      done('FOO') +
      ready +
      done('SELECT 1') +
      ready,
  },
  'a COPY that fails before it reads answers the Sync behind its Execute': {
    script: [
      ['>', parse('', 'copy t from stdin') + bind('', '') + execute('') + sync],
      ['<', m('1') + m('2') + copyIn + error({ C: 'P0001', M: 'trigger' }) + ready],
      ['>', copyDone + sync + parse('', 'FOO x') + bind('', '') + execute('') + sync],
      ['<', ready + m('1') + m('2') + done('CALL') + ready],
      ['>', q('FOO y')],
      ['<', done('CALL') + ready],
    ],
    toEngine:
      parse('', 'copy t from stdin') +
      bind('', '') +
      execute('') +
      sync +
      copyDone +
      sync +
      parse('', 'CALL foo(x)') +
      bind('', '') +
      execute('') +
      sync +
      q('CALL foo(y)'),
    toClient:
      m('1') +
      m('2') +
      copyIn +
      error({ C: 'P0001', M: 'trigger' }) +
      ready +
      ready +
      m('1') +
      m('2') +
      done('FOO') +
      ready +
      done('FOO') +
      ready,
  },
  'a Query after a COPY that failed before it read needs no further Sync': {
    script: [
      ['>', parse('', 'copy t from stdin') + bind('', '') + execute('') + sync],
      ['<', m('1') + m('2') + copyIn + error({ C: 'P0001', M: 'trigger' }) + ready],
      ['>', q('FOO x')],
      ['<', done('CALL') + ready],
    ],
    toEngine: parse('', 'copy t from stdin') + bind('', '') + execute('') + sync + q('CALL foo(x)'),
    toClient: m('1') + m('2') + copyIn + error({ C: 'P0001', M: 'trigger' }) + ready + done('FOO') + ready,
  },
  'a COPY inside a string of statements is pipelined': {
    script: [
      ['>', q('FOO x;copy t from stdin;select 1') + m('d', 'row') + copyDone + q('FOO y')],
      ['<', done('CALL') + copyIn + done('COPY 1') + done('SELECT 1') + ready + done('CALL') + ready],
    ],
    toEngine: q('CALL foo(x);copy t from stdin;select 1') + m('d', 'row') + copyDone + q('CALL foo(y)'),
    toClient: done('FOO') + copyIn + done('COPY 1') + done('SELECT 1') + ready + done('FOO') + ready,
  },
  'a function call, and an error at Sync, are relayed': {
    script: [
      ['>', m('F', 'x') + q('FOO x') + sync + q('FOO y')],
      ['<', m('V', 'r') + ready + done('CALL') + ready + error({ C: '23503', M: 'deferred' }) + ready],
      ['<', done('CALL') + ready],
    ],
    toEngine: m('F', 'x') + q('CALL foo(x)') + sync + q('CALL foo(y)'),
    toClient:
      m('V', 'r') +
      ready +
      done('FOO') +
      ready +
      error({ C: '23503', M: 'deferred' }) +
      ready +
      done('FOO') +
      ready,
  },
  'DISCARD ALL forgets statements, and notices lose Headgate’s context': {
    script: [
      ['>', parse('s', 'FOO x') + sync + q('DISCARD ALL')],
      ['<', m('1') + ready + done('DISCARD ALL') + ready],
      ['>', bind('', 's') + execute('') + sync + q('FOO z')],
      ['<', m('2') + done('CALL') + ready],
      [
        '<',
        m('N', 'SNOTICE\0Mhm\0WPL/pgSQL function headgate.foo(text) line 1 at RAISE\0\0') +
          done('CALL') +
          ready,
      ],
    ],
    toEngine:
      parse('s', 'CALL foo(x)') +
      sync +
      q('DISCARD ALL') +
      bind('', 's') +
      execute('') +
      sync +
      q('CALL foo(z)'),
    toClient:
      m('1') +
      ready +
      done('DISCARD ALL') +
      ready +
      m('2') +
      done('CALL') +
      ready +
      m('N', 'SNOTICE\0Mhm\0\0') +
      done('FOO') +
      ready,
  },
  'a suspended portal goes on': {
    script: [
      ['>', parse('', 'FOO x') + bind('', '') + execute('') + execute('') + sync],
      ['<', m('1') + m('2') + m('D', 'r') + m('s') + m('D', 'r') + done('CALL') + inTransaction],
    ],
    toEngine: parse('', 'CALL foo(x)') + bind('', '') + execute('') + execute('') + sync,
    toClient: m('1') + m('2') + m('D', 'r') + m('s') + m('D', 'r') + done('FOO') + inTransaction,
  },
  'positions and contexts of a rewritten statement refer to the client’s text': {
    script: [
      ['>', q('FOO \xc3\xa9\xc3\xa9.x')],
      [
        '<',
        error({
          C: '3F000',
          M: 'no schema',
          p: '3',
          q: '\xc3\xa9\xc3\xa9.x',
          W: 'PL/pgSQL function headgate.foo(text) line 1 at EXECUTE',
        }) + ready,
      ],
      ['>', q('FOO x')],
      [
        '<',
        error({
          C: 'P0001',
          M: 'mine',
          W: 'PL/pgSQL function mine() line 1 at RAISE\nSQL statement "create\ntable x"\nPL/pgSQL function headgate.foo(text) line 1 at EXECUTE',
        }) + ready,
      ],
    ],
    toEngine: q('CALL foo(\xc3\xa9\xc3\xa9.x)') + q('CALL foo(x)'),
    toClient:
      error({ C: '3F000', M: 'no schema', P: '7' }) +
      ready +
      error({ C: 'P0001', M: 'mine', W: 'PL/pgSQL function mine() line 1 at RAISE' }) +
      ready,
  },
};
