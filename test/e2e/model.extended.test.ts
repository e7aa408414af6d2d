import fc from 'fast-check';
import { Client } from 'pg';
import { onEnd } from '../support/cleanup.ts';
import { onSomeEngine } from '../support/doors.ts';
import { times } from '../support/sample.ts';
import { plan, runPlan } from '../support/upsert-model.ts';

onSomeEngine(
  'random upserts and deletes over HTTP and WebSockets leave the rows of the model',
  async (t, doors) => {
    const chaos = new Client({
      host: '127.0.0.1',
      port: doors.headgate.ports.sql.port,
      user: 'root',
      database: doors.database,
    });
    await chaos.connect();
    onEnd(t, 'chaos', () => chaos.end());
    let run = 0;
    await fc.assert(
      fc.asyncProperty(plan, async (chosen) => {
        const name = `model_${run++}`;
        await doors.client.query(
          `CREATE TABLE ${name} (k INT PRIMARY KEY, v INT) WITH (connector = 'webhook', is_batched = true)`,
        );
        await runPlan(doors, name, chosen, chaos);
      }),
      { numRuns: times(6, 24), endOnFailure: true, includeErrorInReport: true },
    );
  },
);
