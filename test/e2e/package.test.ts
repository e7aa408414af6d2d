/**
 * The package as a program and inside another one, beside nothing but the packages of its `dependencies`. `package.long.ts` packs and installs it with
 * npm, and looks at its files and types.
 */
import assert from 'node:assert/strict';
import { cp, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../support/headgate.ts';
import { judgeFiles, root, selectedFiles } from '../support/package.ts';
import { run } from '../support/run.ts';
import { fromTemplate } from '../support/template.ts';

interface Locked {
  readonly packages: Readonly<Record<string, { readonly dev?: true; readonly peer?: true }>>;
}

test('bin/headgate.js in a clone without a build says how to build it', async (t) => {
  const folder = await temporaryFolder(t);
  await cp(join(root, 'bin/headgate.js'), join(folder, 'bin/headgate.mjs'));
  const { code, stderr } = await run(process.execPath, [join(folder, 'bin/headgate.mjs'), 'status']);
  assert.deepEqual([code, /not built yet: run npm start/.test(stderr)], [1, true], stderr);
});

test('package.json selects the program, types and documents, and nothing else', async () => {
  // The code that V8 has compiled is for this Node only: `npm pack` builds without it.
  judgeFiles((await selectedFiles()).filter((name) => !name.startsWith('dist/src/program/compiled/')));
});

const program = (dataDir: string) => `
import { startHeadgate } from 'headgate';
import { createClient } from 'headgate/client';

const said = [];
const headgate = await startHeadgate({
  settings: { dataDir: ${JSON.stringify(dataDir)}, listenPort: 0, listenHost: '127.0.0.1', sqlPort: 0, gatewayPort: 0, adminPort: 0 },
  observe: (observation) => void said.push(observation.kind),
});
const { listen, gateway } = headgate.doors;
const answer = await fetch(\`http://127.0.0.1:\${listen?.port}/webhook/\${headgate.database}/public/none\`, { method: 'POST', body: '{}' });
const { rows } = await createClient({ url: \`http://127.0.0.1:\${gateway.port}\` }).sql\`SELECT 1 AS one\`;
await headgate.stop();
const refused = await startHeadgate({ settings: { listenPort: 'many' } }).catch((error) => error.message);
console.log(JSON.stringify([answer.status, rows, said.includes('service.ready'), said.at(-1), refused]));
`;

test('the npm package runs with its dependencies only, as a command and inside another program', async (t) => {
  const modules = join(await temporaryFolder(t), 'node_modules');
  const own = join(modules, 'headgate');
  await mkdir(own, { recursive: true });
  for (const part of ['package.json', 'bin', 'dist']) await symlink(join(root, part), join(own, part));
  const { packages } = JSON.parse(await readFile(join(root, 'package-lock.json'), 'utf8')) as Locked;
  for (const [path, { dev, peer }] of Object.entries(packages)) {
    // What is nested in a package comes along with it.
    if (!/^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(path) || dev === true || peer === true) continue;
    await mkdir(dirname(join(modules, '..', path)), { recursive: true });
    await symlink(join(root, path), join(modules, '..', path));
  }
  const inside = (...args: string[]) =>
    run(process.execPath, ['--preserve-symlinks', '--preserve-symlinks-main', ...args], {
      cwd: dirname(modules),
      env: { PATH: process.env['PATH'], HOME: dirname(modules) },
    });
  const command = join(own, 'bin/headgate.js');
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  assert.equal((await inside(command, '--version')).stdout.trim(), version);
  const operator = await inside(command, 'operator');
  assert.deepEqual(
    [operator.code, /^headgate: the operator needs .*client-node next to /m.test(operator.stderr)],
    [1, true],
    operator.stderr,
  );

  const dataDir = await temporaryFolder(t);
  await fromTemplate(dataDir);
  const use = join(dirname(modules), 'use.mjs');
  await writeFile(use, program(dataDir));
  const used = await inside(use);
  assert.equal(used.code, 0, used.stderr);
  assert.deepEqual(JSON.parse(used.stdout), [
    404,
    [{ one: 1 }],
    true,
    'service.stopped',
    'HEADGATE_LISTEN_PORT must be a whole number from 0 to 65535',
  ]);
});
