/**
 * What answers cost an ordinary event: a table that answers `{"rows":1}`, one whose sender wants an empty 200, and one to which each
 * request could be a handshake, with the same check and the same requests, in turns.
 */
import type { Bench } from './report.ts';
import { inTurns, spread, stamp, table } from './report.ts';
import { measure, startService } from './service.ts';
import type { Measured } from './service.ts';
import { body, check, createSigned, signedHeaders } from './signed.ts';
import { median } from './statistics.ts';

const connections = 256;

export const answers: Bench = {
  name: 'answers',
  run: async ({ rounds, seconds }) => {
    const service = await startService();
    try {
      const { client } = service;
      await createSigned(client, 'plain');
      await client.query(
        `CREATE TABLE empty (data JSONB) WITH (connector = 'webhook') ${check} ANSWER STATUS 200`,
      );
      await client.query(`CREATE TABLE asked (data JSONB) WITH (connector = 'webhook') ${check}
        ANSWER WHEN convert_from(data, 'UTF8')::jsonb->>'type' = 'url_verification' TYPE 'text/plain'
          BODY shaped(convert_from(data, 'UTF8')::jsonb->>'challenge', 'token', 128)
        ANSWER STATUS 200`);
      const job = { connections, seconds, headers: signedHeaders(body), bodies: [body] };
      const run = (name: string) => () => measure({ ...job, url: service.url(name) }, service.pid);
      const turns = await inTurns(rounds, 'answers', {
        plain: run('plain'),
        empty: run('empty'),
        asked: run('asked'),
      });
      const line = (what: string, name: 'plain' | 'empty' | 'asked') => {
        const of = (pick: (turn: Measured) => number) => turns.map((it) => pick(it[name]));
        const ratio = (pick: (turn: Measured) => number) =>
          turns.map((it) => pick(it[name]) / pick(it.plain));
        const cpu = (it: Measured) => 1 / it.nodeCpuUs;
        return [
          what,
          median(of((it) => it.perSecond)).toFixed(0),
          spread(ratio((it) => it.perSecond)),
          spread(ratio(cpu)),
        ];
      };
      const lines = [
        line('`{"rows":1}`', 'plain'),
        line('`ANSWER STATUS 200`', 'empty'),
        line("`ANSWER WHEN …->>'type' = …` beside it", 'asked'),
      ];
      const head = ['a table that answers', 'req/s', 'ratio', 'ratio of requests for each second of its CPU'];
      return `${stamp()}; ${connections} connections, medians of ${rounds} rounds of ${seconds} s.\n\n${table(head, lines, 1)}`;
    } finally {
      await service.stop();
    }
  },
};
