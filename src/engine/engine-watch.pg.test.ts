import { test } from 'node:test';
import { Barrier } from '../../test/support/barrier.ts';
import { onEnd } from '../../test/support/cleanup.ts';
import { Spy, testDatabase } from '../../test/support/postgres.ts';
import { holdsTable } from '../../test/support/state-table.ts';
import { until } from '../../test/support/until.ts';
import { EngineWatch } from './engine-watch.ts';

test("the engine watch's state table holds in every state at every event", async (t) => {
  const database = await testDatabase(t);
  const admin = await database.connect();
  const readOnly = (is: boolean) =>
    admin.query(`alter database ${database.name} set default_transaction_read_only = ${is}`);

  class Machine {
    readonly barrier = new Barrier(database.engine.endpoint());
    readonly spy = new Spy();
    attempts = 0;
    checks = 0;
    closed = false;
    watch: EngineWatch | null = null;

    static async after(...steps: readonly ((machine: Machine) => unknown)[]): Promise<Machine> {
      await readOnly(false);
      const machine = new Machine();
      onEnd(t, 'machine', () => machine.end());
      await machine.barrier.open();
      for (const step of steps) await machine.happens(step);
      machine.spy.seen.length = 0;
      return machine;
    }

    start(): void {
      this.watch = new EngineWatch({
        engine: 'postgres',
        clientConfig: () => ({ ...database.clientConfig, host: '127.0.0.1', port: this.barrier.port }),
        observe: this.spy.observe,
        prepare: async () => void (this.attempts += 1),
        check: async (client) => {
          await client.query('select 1');
          this.checks += 1;
        },
        random: () => 0,
      });
    }

    /** Until what it has led to has been noticed: a look at the server, or a second attempt to reach it. */
    async happens(step: (machine: Machine) => unknown): Promise<void> {
      const { attempts, checks } = this;
      await step(this);
      this.watch?.doubt();
      if (this.watch !== null && !this.closed)
        await until(() => this.checks > checks || this.attempts > attempts + 1);
    }

    async end(): Promise<void> {
      await this.watch?.close();
      await this.barrier.bar();
    }

    /** What is known then, and what was said. */
    async told(step: (machine: Machine) => unknown): Promise<string> {
      await this.happens(step);
      const { unavailable = '', readOnly: why = null } = this.watch ?? {};
      const reachable = why === null ? 'ready' : 'read-only';
      const state = unavailable ?? reachable;
      const said = this.spy.seen.map(({ kind }) => kind);
      await this.end();
      return [state.replace(/.* ECONNREFUSED .*/, 'away'), ...said].join('; ');
    }
  }

  const bar = (it: Machine) => it.barrier.bar();
  const start = (it: Machine) => it.start();
  const close = async (it: Machine) => {
    it.closed = true;
    await it.watch?.close();
  };
  await holdsTable(
    {
      'never reached': {
        'the server can be reached': 'ready; engine.ready',
        'the connection ends': 'away',
        'the server cannot be reached': 'away',
        'it is made read-only, and the connection ends': 'away',
        'it is made writable, and the connection ends': 'away',
        'somebody doubts it': 'away',
        'it is closed': 'the database is closed',
      },
      ready: {
        'the server can be reached': 'ready',
        'the connection ends': 'ready; engine.lost; engine.ready',
        'the server cannot be reached': 'away; engine.lost',
        'it is made read-only, and the connection ends': 'read-only; engine.lost; engine.ready',
        'it is made writable, and the connection ends': 'ready; engine.lost; engine.ready',
        'somebody doubts it': 'ready',
        'it is closed': 'the database is closed',
      },
      'read-only': {
        'the server can be reached': 'read-only',
        'the connection ends': 'read-only; engine.lost; engine.ready',
        'the server cannot be reached': 'away; engine.lost',
        'it is made read-only, and the connection ends': 'read-only; engine.lost; engine.ready',
        'it is made writable, and the connection ends': 'ready; engine.lost; engine.ready',
        'somebody doubts it': 'read-only',
        'it is closed': 'the database is closed',
      },
      lost: {
        'the server can be reached': 'ready; engine.ready',
        'the connection ends': 'away',
        'the server cannot be reached': 'away',
        'it is made read-only, and the connection ends': 'away',
        'it is made writable, and the connection ends': 'away',
        'somebody doubts it': 'away',
        'it is closed': 'the database is closed',
      },
      closed: {
        'the server can be reached': 'the database is closed',
        'the connection ends': 'the database is closed',
        'the server cannot be reached': 'the database is closed',
        'it is made read-only, and the connection ends': 'the database is closed',
        'it is made writable, and the connection ends': 'the database is closed',
        'somebody doubts it': 'the database is closed',
        'it is closed': 'the database is closed',
      },
    },
    {
      'never reached': () => Machine.after((it) => (bar(it), start(it))),
      ready: () => Machine.after(start),
      'read-only': () => Machine.after(() => readOnly(true), start),
      lost: () => Machine.after(start, bar),
      closed: () => Machine.after(start, close),
    },
    {
      'the server can be reached': (it) => it.told(() => it.barrier.open()),
      'the connection ends': (it) => it.told(() => it.barrier.cut()),
      'the server cannot be reached': (it) => it.told(bar),
      'it is made read-only, and the connection ends': (it) =>
        it.told(async () => (await readOnly(true), it.barrier.cut())),
      'it is made writable, and the connection ends': (it) =>
        it.told(async () => (await readOnly(false), it.barrier.cut())),
      'somebody doubts it': (it) => it.told(() => it.watch?.doubt()),
      'it is closed': (it) => it.told(close),
    },
  );
});
