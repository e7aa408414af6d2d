import assert from 'node:assert/strict';
import { onSomeEngine } from '../support/doors.ts';
import type { Doors } from '../support/doors.ts';
import { breath, times } from '../support/sample.ts';
import { until } from '../support/until.ts';

interface Load {
  /** Status per id that was sent. */
  readonly answers: Map<number, number>;
  stop(): Promise<void>;
}

/** Senders that post one row after the other, each with an id of its own, until they are told to stop. */
function load({ post }: Doors, table: string, senders = times(6, 12)): Load {
  const answers = new Map<number, number>();
  const state = { next: 0, stopped: false };
  const running = Array.from({ length: senders }, async () => {
    while (!state.stopped) {
      const id = state.next++;
      const { status } = await post(table, `{"id":${id},"a":${id},"extra":${id}}`);
      answers.set(id, status);
      await breath();
    }
  });
  return {
    answers,
    stop: async () => {
      state.stopped = true;
      await Promise.all(running);
    },
  };
}

const committed = ({ answers }: Load) =>
  [...answers].filter(([, status]) => status === 200).map(([id]) => id);

/** Waits until `more` further requests were answered 200: the change before it has met load. */
async function untilAnswered(it: Load, more: number): Promise<void> {
  const before = committed(it).length;
  await until(() => committed(it).length >= before + more);
}

onSomeEngine('tables keep accepting requests while they are altered', async (t, doors) => {
  const { client, rows } = doors;

  await t.test('ALTER TABLE under load causes no 500 and loses no request answered 200', async () => {
    await client.query(`CREATE TABLE changing (id INT, a INT) WITH (connector = 'webhook')`);
    const it = load(doors, 'changing');
    const changes = [
      'ADD COLUMN extra INT',
      'ALTER COLUMN a TYPE BIGINT',
      'RENAME COLUMN a TO b',
      'DROP COLUMN extra',
      'RENAME COLUMN b TO a',
      'ALTER COLUMN a TYPE TEXT',
      'ADD COLUMN extra TEXT DEFAULT $$none$$',
      'ALTER COLUMN id SET NOT NULL',
      'ADD PRIMARY KEY (id)',
      'DROP CONSTRAINT changing_pkey',
      'ALTER COLUMN id TYPE NUMERIC',
    ];
    let extraSince = 0;
    for (const change of changes) {
      await untilAnswered(it, 60);
      await client.query(`ALTER TABLE changing ${change}`);
      if (change.startsWith('ADD COLUMN extra TEXT')) extraSince = Math.max(...it.answers.keys());
    }
    await untilAnswered(it, 60);
    await it.stop();
    const others = [...it.answers.values()].filter((status) => status !== 200);
    assert.deepEqual(
      others.filter((status) => status !== 503),
      [],
    );
    const stored = new Map(
      (await rows('SELECT id, count(*) FROM changing GROUP BY id')).map(([id, n]) => [Number(id), n]),
    );
    assert.deepEqual(
      committed(it).filter((id) => stored.get(id) !== '1'),
      [],
      'every 200 is one row',
    );
    // The column was there for every request that was sent after `ADD COLUMN` had committed, until the end.
    const [late] = await rows(
      `SELECT count(*) FROM changing WHERE extra = 'none' AND id > ${extraSince + 12}`,
    );
    assert.deepEqual(late, ['0']);
  });

  await t.test(
    'a table renamed and replaced by one of another shape under load stores each request answered 200 once',
    async () => {
      await client.query(`CREATE TABLE swapped (id INT, a INT) WITH (connector = 'webhook')`);
      const it = load(doors, 'swapped');
      for (let i = 0; i < 6; i++) {
        await untilAnswered(it, 60);
        await client.query(`BEGIN; ALTER TABLE swapped RENAME TO swapped_${i};
        CREATE TABLE swapped (${i % 2 === 0 ? 'data JSONB' : 'id INT, a INT'}) WITH (connector = 'webhook'); COMMIT`);
      }
      await untilAnswered(it, 60);
      await it.stop();
      await client.query('ALTER TABLE swapped RENAME TO swapped_6');
      assert.deepEqual(
        [...it.answers.values()].filter((status) => status !== 200 && status !== 503),
        [],
      );
      const ids = new Map<number, number>();
      for (let i = 0; i <= 6; i++) {
        const id = i % 2 === 1 ? `(data->>'id')::int` : 'id';
        for (const [value] of await rows(`SELECT ${id} FROM swapped_${i}`)) {
          ids.set(Number(value), (ids.get(Number(value)) ?? 0) + 1);
        }
      }
      assert.deepEqual(
        committed(it).filter((id) => ids.get(id) !== 1),
        [],
        'every 200 is one row of one of the tables',
      );
    },
  );

  await t.test(
    'a table dropped and recreated under load answers 200, 404 or 503 and nothing else',
    async () => {
      await client.query(`CREATE TABLE dropped (id INT, a INT) WITH (connector = 'webhook')`);
      const it = load(doors, 'dropped');
      for (let i = 0; i < 8; i++) {
        await untilAnswered(it, 30);
        await client.query('DROP TABLE dropped');
        await client.query(
          `CREATE TABLE dropped (id INT, a ${i % 2 === 0 ? 'TEXT' : 'INT'}${i % 3 === 0 ? ', PRIMARY KEY (id)' : ''}) WITH (connector = 'webhook')`,
        );
      }
      await untilAnswered(it, 30);
      await it.stop();
      assert.deepEqual(
        [...it.answers.values()].filter((status) => ![200, 404, 503].includes(status)),
        [],
      );
      const stored = (await rows('SELECT id FROM dropped')).map(([id]) => Number(id));
      assert(stored.length >= 30);
      assert.deepEqual(
        stored.filter((id) => it.answers.get(id) === 404),
        [],
      );
    },
  );
});
