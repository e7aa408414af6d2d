/**
 * COPY … FROM STDIN and COPY … TO STDOUT need a stream in addition to the statement, which a request over HTTP does not
 * have. Takes a rewriter, returns one that refuses them (0A000), with their position, before anything is sent. Pure.
 */
import type { RewriteSql } from './rewrite.ts';
import { Cursor } from './cursor.ts';
import { lexable, statementsOf } from './scanner.ts';

export function withoutCopy(rewrite: RewriteSql): RewriteSql {
  return (sql, session) => {
    if (!/\bcopy\b/i.test(sql)) return rewrite(sql, session);
    const { clientEncoding: encoding, standardConformingStrings } = session;
    for (const statement of statementsOf(lexable(sql, encoding), standardConformingStrings)) {
      const cursor = new Cursor(statement, { text: sql, encoding, standardConformingStrings });
      if (cursor.peek() !== 'copy' || !isStreamed(cursor)) continue;
      return {
        kind: 'error',
        error: {
          sqlstate: '0A000',
          message: 'COPY FROM STDIN and COPY TO STDOUT are not possible over HTTP',
          hint: 'Send rows with POST /v1/events, read them with SELECT, or use a PostgreSQL connection.',
          position: statement.start + 1,
        },
      };
    }
    return rewrite(sql, session);
  };
}

function isStreamed(cursor: Cursor): boolean {
  let depth = 0;
  for (let at = 1; at < cursor.statement.tokens.length; at++) {
    const word = cursor.peek(at);
    if (word === '(') depth++;
    else if (word === ')') depth--;
    else if (depth === 0 && (word === 'stdin' || word === 'stdout')) return true;
  }
  return false;
}
