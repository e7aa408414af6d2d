/** What docs/events-gateway.md, docs/operating/keeping.md and docs/operating/alerts.md give their readers to type, as they give it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { transform } from 'esbuild';
import { onEnd } from '../support/cleanup.ts';
import { commandsOf } from '../support/docs.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { startHeadgate, temporaryFolder } from '../support/headgate.ts';
import { startReceiver } from '../support/receiver.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';
import { until } from '../support/until.ts';

const gatewayPage = 'docs/events-gateway.md';
const clientModule = fileURLToPath(new URL('../../src/client/client.js', import.meta.url));

/** `NAME=value command …` → the name and the value, and what is run with it. */
async function variableOf(page: string, name: string): Promise<readonly [string, string]> {
  const [, variable = '', command = ''] = /^(\w+)=\S+ (.*)\n$/.exec(await commandsOf(page, name)) ?? [];
  return [variable, command];
}

/** What a command that goes on has printed, up to what is waited for. */
async function printed(t: TestContext, command: string, wanted: RegExp): Promise<string> {
  const child = spawn('sh', ['-euc', `exec ${command}`], { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = once(child, 'exit');
  onEnd(t, 'command', async () => {
    child.kill();
    await ended;
  });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (more: string) => (text += more));
  await until(() => wanted.test(text) || child.exitCode !== null);
  assert.match(text, wanted);
  return text;
}

test('the documented how-tos work as printed', { timeout: 180_000 }, async (t) => {
  if (requireTool(t, 'curl') === null) return;
  const told: string[] = [];
  const receiver = await startReceiver(t, (request, response) => {
    request.setEncoding('utf8').on('data', (part: string) => void told.push(part));
    request.on('end', () => response.end());
  });
  const [alertUrl, start] = await variableOf('docs/operating/alerts.md', 'alerts');
  assert.equal(start, 'headgate start');
  const env = {
    [alertUrl]: `http://${receiver}/`,
    HEADGATE_ALERT_SECONDS: '1',
  };
  const headgate = await startHeadgate(t, { env });
  const root = await headgate.client(t);
  const shell = async (name: string): Promise<string> => {
    const command = await here(name);
    const ran = await run('sh', ['-euc', command]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  const here = async (name: string) =>
    (await commandsOf(gatewayPage, name)).replaceAll('http://localhost:8000', headgate.gatewayUrl);

  await t.test('the documented how-to of events, SQL and both stream formats works', async (step) => {
    assert.match(await shell('quick-start'), /\{"rows":3\}[^]*"user_id":"u4"[^]*"user_id":"u1"/);
    assert.match(await shell('parameters'), /"rows":\[\{"user_id":"u2",/);
    const events = await printed(step, await here('stream'), /^data: .*"u4".*\n\n/m);
    assert.match(events, /^retry: 1000\nid: \S+\n\n/);
    const lines = await printed(step, await here('lines'), /"u4".*\n/);
    const rows = lines.split('\n').filter((line) => line !== '');
    const parsed = rows.map((line) => JSON.parse(line) as { position?: string; row?: { user_id: string } });
    assert.deepEqual(
      parsed.map(({ row }) => row?.user_id),
      [undefined, 'u1', 'u2', 'u3', 'u4'],
    );
    assert.match(parsed.at(-1)?.position ?? '', /^\d+\.\d+-/);
  });

  await t.test('the documented how-to of headgate gateway in front of a database works', async (step) => {
    const [dsn, command] = await variableOf(gatewayPage, 'gateway');
    assert.equal(command, 'headgate gateway');
    const gateway = await startGatewayProcess(step, {
      [dsn]: `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`,
    });
    const answer = await fetch(`${gateway.url}/v1/sql`, { method: 'POST', body: 'SELECT 1 AS one' });
    assert.match(await answer.text(), /"rows":\[\{"one":1\}\]/);
  });

  await t.test('the documented how-to of a browser token and headgate/client works', async (step) => {
    const { rows } = await root.query<{ Token: string }>(await commandsOf(gatewayPage, 'token'));
    const token = rows[0]?.Token ?? '';
    const folder = await temporaryFolder(step);
    const runs = async (name: string, text: string): Promise<string> => {
      const { code } = await transform(text, { loader: 'ts', format: 'esm' });
      await writeFile(join(folder, `${name}.mjs`), code);
      const ran = await run(process.execPath, [join(folder, `${name}.mjs`)]);
      assert.equal(ran.code, 0, ran.stderr);
      return ran.stdout;
    };
    const page = (await commandsOf(gatewayPage, 'page'))
      .replace('https://events.example.com', headgate.gatewayUrl)
      .replace('hgt_5d0c…', token)
      .replace('await fetch', 'const answer = await fetch');
    await runs(
      'page',
      `const location = { pathname: '/shop' }; ${page}; if (!answer.ok) throw new Error(await answer.text())`,
    );
    const insert = (await here('insert')).replace("'headgate/client'", JSON.stringify(clientModule));
    const follow = await commandsOf(gatewayPage, 'follow');
    const all = `const events = [{ user_id: 'u5' }], since = new Date(0); ${insert}
      const kept = []; const readPosition = async () => '0'; const handle = async (row) => void kept.push(row);
      const savePosition = async (position) => {
        if (kept.length < 6) return;
        console.log(JSON.stringify({ rows, kept: kept.map(({ url, user_id }) => user_id ?? url), position }));
        process.exit();
      };
      ${follow}`;
    const printedLast = JSON.parse(await runs('client', all)) as {
      kept: string[];
      rows: { user_id: string }[];
    };
    assert.deepEqual(printedLast.kept, ['u1', 'u2', 'u3', 'u4', '/shop', 'u5']);
    assert.equal(printedLast.rows.length, 5);
  });

  await t.test('the documented how-to of removing old rows works', async () => {
    for (const name of ['keep', 'keep_if', 'partitions'])
      await root.query(await commandsOf('docs/operating/keeping.md', name));
    assert.equal((await headgate.post('dev/public/orders', '{}')).status, 200);
    const { rows } = await root.query(await commandsOf('docs/operating/keeping.md', 'kept'));
    assert.deepEqual(rows, []);
  });

  await t.test('the documented how-to of an alert works', async () => {
    await root.query("CREATE TABLE strict (n int NOT NULL) WITH (connector = 'webhook')");
    for (let i = 0; i < 12; i++) await headgate.post('dev/public/strict', '{"n":"x"}');
    await until(() => told.join('').includes('HeadgateRowsRefused'));
  });
});
