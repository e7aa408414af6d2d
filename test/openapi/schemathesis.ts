/**
 * What Schemathesis makes of GET /v1/openapi.json: requests by it and against it, answers as it says, no 500. With the name of a table that is
 * there, and without; with a token, and without one that is asked for.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';

const { HEADGATE_SCHEMATHESIS: program = 'schemathesis' } = process.env;

/** A text of SQL need be none, and a position of a stream none that was given: that is not said in a schema. */
const beyondSchemas = 'positive_data_acceptance';

for (const [name, token] of [
  ['without a token', null],
  ['with a token', 'a-token-of-the-test'],
] as const)
  test(`Schemathesis finds no fault in the events gateway ${name}`, { timeout: 600_000 }, async (t) => {
    const folder = await temporaryFolder(t);
    const headgate = await startHeadgate(t, { env: token === null ? {} : { EVENTS_API_TOKEN: token } });
    const root = await headgate.client(t);
    await root.query('CREATE TABLE clicks (id BIGINT PRIMARY KEY, n INT, data JSONB, at TIMESTAMPTZ)');
    const known = join(folder, 'known.toml');
    // Bodies that are no events are skipped where that is asked for, and answered 200.
    const values = ['"query.name" = "clicks"', '"query.database" = "dev"', '"query.on_error" = "fail"'];
    await writeFile(known, ['[parameters]', ...values, ''].join('\n'));
    const anything = join(folder, 'anything.toml');
    await writeFile(anything, '');
    // A stream of a table that is there has no end.
    const cases = [
      [known, ['--exclude-operation-id=followRows']],
      [anything, []],
    ] as const;
    for (const [config, more] of cases) {
      const headers = token === null ? [] : ['--header', `Authorization: Bearer ${token}`];
      const ran = await run(
        program,
        [
          `--config-file=${config}`,
          'run',
          `${headgate.gatewayUrl}/v1/openapi.json`,
          '--max-examples=50',
          '--request-timeout=15',
          '--no-color',
          `--exclude-checks=${beyondSchemas}`,
          ...headers,
          ...more,
        ],
        { cwd: folder },
      );
      t.diagnostic(/^Test cases:\n.*$/m.exec(ran.stdout)?.[0].replace('\n', '') ?? '');
      assert.equal(ran.code, 0, ran.stdout + ran.stderr);
    }
    assert.doesNotMatch(headgate.stderr, /gateway\.failed|"level":"?(?:error|50)/);
  });
