/** A command loads what it needs and no more: what is loaded is what its first answer costs. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { run } from '../support/run.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

/** The rooms of ours and the packages of others whose modules that command line loaded, by V8's own record of it. */
async function loadedBy(...args: string[]): Promise<{ deps: string[]; packages: string[] }> {
  const folder = await mkdtemp(join(tmpdir(), 'headgate-modules-'));
  try {
    const { code } = await run(process.execPath, [cli, ...args], {
      env: { PATH: process.env['PATH'], NODE_V8_COVERAGE: folder },
    });
    assert.equal(code, 0, args.join(' '));
    const deps = new Set<string>();
    const packages = new Set<string>();
    for (const name of await readdir(folder)) {
      const { result } = JSON.parse(await readFile(join(folder, name), 'utf8')) as {
        result: { url: string }[];
      };
      for (const { url } of result) {
        if (!url.includes('/dist/src/')) continue;
        // The bundled program names before each module where it is from.
        const text = await readFile(fileURLToPath(url), 'utf8');
        for (const [, room, dependency] of text.matchAll(
          /^\/\/ (?:src\/([^/]+)\/|node_modules\/((?:@[^/]+\/)?[^/]+)\/)/gm,
        )) {
          if (room !== undefined) deps.add(room);
          if (dependency !== undefined) packages.add(dependency);
        }
      }
    }
    return { deps: [...deps].toSorted(), packages: [...packages].toSorted() };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** CPU time of a run of Node with these arguments, in ms: the least of several. */
async function cpuMs(...args: string[]): Promise<number> {
  const tell = 'process.on("exit", () => process._rawDebug(JSON.stringify(process.cpuUsage())))';
  const env = {
    PATH: process.env['PATH'],
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(tell)}`,
  };
  const all: number[] = [];
  for (let i = 0; i < 5; i++) {
    const { stderr } = await run(process.execPath, args, { env });
    const { user, system } = JSON.parse(stderr) as NodeJS.CpuUsage;
    all.push((user + system) / 1_000);
  }
  return Math.min(...all);
}

suite('a command loads only the modules that it needs', () => {
  test('headgate --version loads the modules of app/ only', async () => {
    assert.deepEqual(await loadedBy('--version'), { deps: ['app'], packages: [] });
  });

  for (const args of [['--help'], ['start', '--help']]) {
    test(`headgate ${args.join(' ')} loads only the modules of app/, cli/, config/ and kit/`, async () => {
      assert.deepEqual(await loadedBy(...args), {
        deps: ['app', 'cli', 'config', 'kit'],
        packages: ['commander'],
      });
    });
  }

  test('headgate --version takes at most 100 ms of CPU, or 50 ms more than Node itself', async () => {
    const [bare, version] = [await cpuMs('--eval', '0'), await cpuMs(cli, '--version')];
    assert.ok(version <= Math.max(100, bare + 50), `${version} ms, Node alone ${bare}`);
  });

  test('headgate send loads the modules of senders/ and not those of the server', async () => {
    assert.deepEqual(await loadedBy('send', 'github', '--make-secret'), {
      deps: ['app', 'cli', 'config', 'kit', 'senders', 'types'],
      packages: ['commander'],
    });
  });
});
