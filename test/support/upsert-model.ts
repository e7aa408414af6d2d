/**
 * Senders that write to one table with a key through both doors, and a model of the expected content. Each sender owns
 * some of the keys for one phase at a time, so that the last writer of every key is known; which requests share a group
 * is left to chance.
 */
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Client } from 'pg';
import type { Doors } from './doors.ts';
import { WsSender } from './ws-client.ts';
import type { Item } from './ws-client.ts';

const senders = 4;
const keysEach = 6;

export type Change =
  | { readonly op: 'upsert'; readonly key: number; readonly value: number }
  | { readonly op: 'delete'; readonly key: number };

export interface Step {
  /** What is sent together: the lines of one request, or the items of one batch. */
  readonly changes: readonly Change[];
  /** What breaks just after it was sent. */
  readonly trouble: 'none' | 'connection' | 'engine';
}

/** For each phase, the steps of each sender, in order. */
export type Plan = readonly (readonly (readonly Step[])[])[];

const key = fc.integer({ min: 0, max: keysEach - 1 });
const upsert = fc.record({
  op: fc.constant('upsert' as const),
  key,
  value: fc.integer({ min: 0, max: 1_000_000 }),
});
const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 3, arbitrary: upsert },
  { weight: 1, arbitrary: fc.record({ op: fc.constant('delete' as const), key }) },
);
const step = fc.record({
  changes: fc.array(change, { minLength: 0, maxLength: 8 }),
  trouble: fc.oneof(
    { weight: 14, arbitrary: fc.constant('none' as const) },
    { weight: 2, arbitrary: fc.constant('connection' as const) },
    { weight: 1, arbitrary: fc.constant('engine' as const) },
  ),
});
const steps = fc.array(step, { minLength: 1, maxLength: 25 });

export const plan: fc.Arbitrary<Plan> = fc.array(
  fc.array(steps, { minLength: senders, maxLength: senders }),
  { minLength: 1, maxLength: 3 },
);

interface Sender {
  /** With HTTP a request is answered before the next one is sent; with WebSocket batches are pipelined. */
  step(changes: readonly { readonly change: Change; readonly id: number }[], it: Step): Promise<void>;
  drained(): Promise<void>;
  stop(): Promise<void>;
}

/** Runs the plan on the table `name` (k int primary key, v int) and compares it with the model. */
export async function runPlan(doors: Doors, name: string, chosen: Plan, chaos: Client): Promise<void> {
  const model = new Map<number, number>();
  const breakEngine = async () => {
    await chaos.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'headgate commit%'`,
    );
  };
  const all = Array.from({ length: senders }, (_, i) =>
    i % 2 === 0 ? httpSender(doors, name, breakEngine) : socketSender(doors, name, breakEngine),
  );
  try {
    for (const [number, phase] of chosen.entries()) {
      await Promise.all(
        phase.map(async (its, i) => {
          const sender = all[i];
          assert(sender !== undefined);
          // With HTTP a table's rows are upserted and never deleted.
          const deletes = i % 2 === 1;
          for (const it of its) {
            const changes = it.changes
              .filter(({ op }) => deletes || op === 'upsert')
              .map((one) => ({ change: one, id: ((i + number) % senders) * keysEach + one.key }));
            for (const { change: one, id } of changes) {
              if (one.op === 'upsert') model.set(id, one.value);
              else model.delete(id);
            }
            await sender.step(changes, it);
          }
          await sender.drained();
        }),
      );
    }
  } finally {
    await Promise.all(all.map((sender) => sender.stop()));
  }
  const stored = await doors.rows(`SELECT k, v FROM ${name} ORDER BY k`);
  const wanted = [...model].toSorted(([a], [b]) => a - b).map(([k, v]) => [String(k), String(v)]);
  assert.deepEqual(stored, wanted);
}

/** One request with a line for each change, resent until it is answered 200. */
function httpSender({ post }: Doors, name: string, breakEngine: () => Promise<void>): Sender {
  return {
    step: async (changes, { trouble }) => {
      const body = changes
        .map(({ change: one, id }) => JSON.stringify({ k: id, v: one.op === 'upsert' ? one.value : null }))
        .join('\n');
      const broken = trouble === 'none' ? Promise.resolve() : breakEngine();
      for (;;) {
        const { status, text } = await post(name, body);
        if (status === 200) break;
        // The row may already be stored: repeating an upsert changes nothing.
        assert.equal(status, 503, text);
      }
      await broken;
    },
    drained: () => Promise.resolve(),
    stop: () => Promise.resolve(),
  };
}

function socketSender({ headgate, database }: Doors, name: string, breakEngine: () => Promise<void>): Sender {
  const url = `ws://127.0.0.1:${headgate.ports.listen.port}/ingest/${database}/public/${name}`;
  const sender = new WsSender(() => url);
  return {
    step: async (changes, { trouble }) => {
      const items = changes.map(({ change: one, id }): Item =>
        one.op === 'upsert'
          ? { op: 'upsert', data: { k: id, v: one.value } }
          : { op: 'delete', data: { k: id } },
      );
      sender.send(items);
      if (trouble === 'connection') sender.kill();
      if (trouble === 'engine') await breakEngine();
    },
    drained: () => sender.drained(),
    stop: () => sender.stop(),
  };
}
