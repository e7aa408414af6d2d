/** The package as npm delivers it: packed, installed into an empty folder, and used from there. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { asked } from '../support/asked.ts';
import { onEnd } from '../support/cleanup.ts';
import { Headgate, temporaryFolder } from '../support/headgate.ts';
import type { Ended } from '../support/headgate.ts';
import { judgeFiles, packHeadgate, root } from '../support/package.ts';
import { run } from '../support/run.ts';
import { requireTool } from '../support/tools.ts';

/** As on a machine that has nothing but Node: no variable of this test run, nor of the npm that started it. */
const plainEnv = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|NODE_|HEADGATE_|INIT_CWD)/.test(name)),
);

async function installed(t: TestContext, tarball: string): Promise<string> {
  const folder = await temporaryFolder(t);
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball];
  const install = await run('npm', args, { cwd: folder, env: plainEnv });
  assert.equal(install.code, 0, install.stderr);
  return folder;
}

/**
 * `npx headgate start` in the folder. npx hands SIGTERM to a shell that does not hand it on, so signals go to the
 * program itself; a terminal's Ctrl-C reaches all of them.
 */
function npxStart(t: TestContext, folder: string, dataDir: string): Promise<Headgate> {
  const ports = ['--listen-port=0', '--sql-port=0', '--gateway-port=0', '--admin-port=0'];
  const args = ['headgate', 'start', `--data-dir=${dataDir}`, ...ports];
  const child = spawn('npx', args, { cwd: folder, env: plainEnv, stdio: ['ignore', 'pipe', 'pipe'] });
  const headgate = new Headgate(child, dataDir);
  onEnd(t, 'npx', async () => void (await terminate(headgate)));
  return headgate.ready();
}

/** Ends the program by its own pid, and gives what npx made of that. */
async function terminate(headgate: Headgate): Promise<Ended> {
  const ports = await readFile(join(headgate.dataDir, 'ports.json'), 'utf8').catch(() => null);
  if (ports !== null) process.kill((JSON.parse(ports) as { pid: number }).pid, 'SIGTERM');
  return headgate.ended;
}

test('the packed npm package works', async (suite) => {
  const { tarball, files } = await packHeadgate(suite);

  await suite.test(
    'the npm package holds the freshly built program, types and documents, and nothing else',
    () => {
      judgeFiles(files);
    },
  );

  await suite.test(
    '`npx headgate start` of the installed npm package stores webhooks and exits with 0 on SIGTERM',
    async (t) => {
      const psql = requireTool(t, 'psql');
      if (psql === null) return;
      const folder = await installed(t, tarball);
      const manifest = JSON.parse(
        await readFile(join(folder, 'node_modules/headgate/package.json'), 'utf8'),
      ) as { version: string };
      const installedHeadgate = join(folder, 'node_modules/.bin/headgate');
      const version = await run(installedHeadgate, ['--version'], { cwd: folder, env: plainEnv });
      assert.equal(version.stdout.trim(), manifest.version);
      const operator = await run(installedHeadgate, ['operator'], { cwd: folder, env: plainEnv });
      assert.equal(operator.code, 1);
      assert.match(
        operator.stderr,
        /^headgate: the operator needs .* npm install @kubernetes\/client-node next to .*$/m,
      );

      const dataDir = await temporaryFolder(t);
      const headgate = await npxStart(t, folder, dataDir);
      const sql = async (text: string) => {
        const door = ['-h', '127.0.0.1', '-p', String(headgate.ports.sql.port), '-d', 'dev', '-U', 'root'];
        const ran = await run(psql, [...door, '-v', 'ON_ERROR_STOP=1', '-At', '-c', text]);
        assert.equal(ran.code, 0, ran.stderr);
        return ran.stdout;
      };
      await sql(`CREATE SECRET github WITH (backend = 'meta') AS 'a long random key'`);
      await sql(
        `CREATE TABLE deliveries (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET github AS secure_compare(
        headers->>'x-hub-signature-256', 'sha256=' || encode(hmac(github, data, 'sha256'), 'hex'))`,
      );
      const body = '{"action":"opened","number":1}';
      const signature = `sha256=${createHmac('sha256', 'a long random key').update(body).digest('hex')}`;
      const ok = await headgate.post('dev/public/deliveries', body, { 'x-hub-signature-256': signature });
      assert.equal(`${ok.status} ${ok.text}`, '200 {"rows":1}');
      const forged = await headgate.post('dev/public/deliveries', `${body} `, {
        'x-hub-signature-256': signature,
      });
      assert.equal(forged.status, 401);
      assert.equal(await sql('SELECT data FROM deliveries'), '{"action": "opened", "number": 1}\n');
      const page = (await asked(`${headgate.adminUrl}/console/`)).text;
      const script = await fetch(`${headgate.adminUrl}/console/${/main-\w+\.js/.exec(page)?.[0]}`);
      assert.equal(script.status, 200);
      assert.deepEqual(await terminate(headgate), { code: 0, signal: null });

      await t.test(
        'an import of the npm package starts Headgate inside another program, with checked types',
        () => usedAsLibrary(t, folder),
      );
    },
  );
});

const program = (dataDir: string) => `
import { startHeadgate } from 'headgate';
import type { Observation, RunningHeadgate } from 'headgate';

const said: Observation['kind'][] = [];
const headgate: RunningHeadgate = await startHeadgate({
  settings: { dataDir: ${JSON.stringify(dataDir)}, listenPort: 0, listenHost: '127.0.0.1', sqlPort: 0, gatewayPort: 0, adminPort: 0 },
  observe: (observation) => void said.push(observation.kind),
});
const { listen } = headgate.doors;
const answer = await fetch(\`http://127.0.0.1:\${listen?.port}/webhook/\${headgate.database}/public/none\`, { method: 'POST', body: '{}' });
await headgate.stop();
const refused = await startHeadgate({ settings: { listenPort: 'many' } }).catch((error: Error) => error.message);
console.log(JSON.stringify([answer.status, said.includes('service.ready'), said.at(-1), refused]));
`;

async function usedAsLibrary(t: TestContext, folder: string): Promise<void> {
  const dataDir = await temporaryFolder(t);
  await writeFile(join(folder, 'use.mts'), program(dataDir));
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin/tsc');
  // The declarations must stand on their own: what they import from elsewhere would be missing in this folder. Only
  // Node's own types are lent from here.
  const options = ['--module', 'nodenext', '--target', 'es2023', '--strict', '--types', 'node'];
  const typeRoots = ['--typeRoots', join(root, 'node_modules/@types')];
  const compiled = await run(process.execPath, [tsc, ...options, ...typeRoots, 'use.mts'], { cwd: folder });
  assert.equal(compiled.code, 0, compiled.stdout);
  const used = await run(process.execPath, ['use.mjs'], { cwd: folder, env: plainEnv });
  assert.equal(used.code, 0, used.stderr);
  assert.deepEqual(JSON.parse(used.stdout), [
    404,
    true,
    'service.stopped',
    'HEADGATE_LISTEN_PORT must be a whole number from 0 to 65535',
  ]);
}
