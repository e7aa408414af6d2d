/** What V8 has made of the program lies beside it, and is believed only where it fits: whatever it is, the program is the same. */
import assert from 'node:assert/strict';
import { chmod, cp, mkdir, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { temporaryFolder } from '../support/headgate.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';

const dist = fileURLToPath(new URL('../..', import.meta.url));

/** Counts the program's files that V8 was given something for, and what became of it. Required first, it says so on standard error at the end. */
const counting = `
const vm = require('node:vm');
const counted = { given: 0, accepted: 0, files: 0 };
vm.Script = class extends vm.Script {
  constructor(text, options) {
    super(text, options);
    counted.files += 1;
    if (options.cachedData !== undefined) counted.given += 1;
    if (this.cachedDataRejected === false) counted.accepted += 1;
  }
};
process.on('exit', () => process._rawDebug(JSON.stringify(counted)));
`;

interface Copy {
  readonly program: string;
  readonly compiled: string;
  /** Its help, and what was counted. */
  help(flags?: readonly string[], options?: { readonly uid?: number }): Promise<Said>;
}

interface Said {
  readonly text: string;
  readonly counted: { readonly given: number; readonly accepted: number; readonly files: number };
}

/** The built program, elsewhere. */
async function copied(t: TestContext): Promise<Copy> {
  const root = await temporaryFolder(t);
  await chmod(root, 0o755);
  const program = join(root, 'dist/src/program');
  const cli = join(root, 'dist/src/app/cli.js');
  await cp(join(dist, 'src/program'), program, {
    recursive: true,
    filter: (path) => !path.endsWith('.map'),
  });
  await mkdir(dirname(cli));
  await cp(join(dist, 'src/app/cli.js'), cli);
  await writeFile(join(root, 'package.json'), '{ "type": "module", "version": "1.2.3" }');
  const hook = join(root, 'counting.cjs');
  await writeFile(hook, counting);
  return {
    program,
    compiled: join(program, 'compiled'),
    help: async (flags = [], options = {}) => {
      const args = [...flags, '--require', hook, cli, 'start', '--help'];
      const { code, stdout, stderr } = await run(process.execPath, args, {
        env: { PATH: process.env['PATH'] },
        ...options,
      });
      assert.equal(code, 0, stderr);
      return { text: stdout, counted: JSON.parse(stderr) as Said['counted'] };
    },
  };
}

/** Of each file in `compiled/`. */
async function each(copy: Copy, change: (path: string) => Promise<void>): Promise<void> {
  const names = await readdir(copy.compiled);
  assert.ok(names.length > 10, `${names.length} files`);
  for (const name of names) await change(join(copy.compiled, name));
}

suite('the compiled program is used only if it matches', () => {
  test('the compiled program is used and changes no output', async (t) => {
    const copy = await copied(t);
    const { text, counted } = await copy.help();
    assert.match(text, /^Usage: headgate start/);
    assert.ok(counted.files > 3);
    assert.deepEqual(counted, { files: counted.files, given: counted.files, accepted: counted.files });
    await rm(copy.compiled, { recursive: true });
    assert.deepEqual(await copy.help(), { text, counted: { ...counted, given: 0, accepted: 0 } });
  });

  const damages: Record<string, (path: string) => Promise<void>> = {
    'with another byte in its middle': async (path) => {
      const bytes = await readFile(path);
      const middle = bytes.length >> 1;
      bytes[middle] = (bytes[middle] ?? 0) ^ 0xff;
      await writeFile(path, bytes);
    },
    'cut off': async (path) => truncate(path, 1_000),
    empty: async (path) => truncate(path, 0),
    'shorter than its sum': async (path) => truncate(path, 3),
    'of another file': async (path) => {
      const other = join(dirname(path), 'embed.bin');
      if (path !== other) await cp(other, path);
    },
    'a folder': async (path) => {
      await rm(path);
      await mkdir(path);
    },
  };
  for (const [what, damage] of sampleOf(Object.entries(damages), 1)) {
    test(`a damaged compiled program (${what}) is rejected, and the source runs instead`, async (t) => {
      const copy = await copied(t);
      const { text } = await copy.help();
      await each(copy, damage);
      const { text: same, counted } = await copy.help();
      assert.equal(same, text);
      assert.equal(counted.given, 0);
    });
  }

  test('a compiled program of another source of the same length is rejected', async (t) => {
    const copy = await copied(t);
    const { text } = await copy.help();
    for (const name of await readdir(copy.program)) {
      if (!name.endsWith('.cjs') || name === 'load.cjs') continue;
      const path = join(copy.program, name);
      const source = await readFile(path, 'utf8');
      await writeFile(path, source.replaceAll('start the service', 'START the service'));
    }
    assert.equal((await copy.help()).text, text.replaceAll('start the service', 'START the service'));
  });

  test('a compiled program is rejected by V8 under other flags', async (t) => {
    const copy = await copied(t);
    const { text, counted } = await copy.help(['--stack-size=900']);
    assert.equal(text, (await copy.help()).text);
    assert.deepEqual(counted, { files: counted.files, given: counted.files, accepted: 0 });
  });

  test('a compiled program of another Node version is rejected', async (t) => {
    const copy = await copied(t);
    const loader = join(copy.program, 'load.cjs');
    const source = await readFile(loader, 'utf8');
    assert.ok(source.includes('process.version'));
    await writeFile(loader, source.replace('process.version', '"v20.0.0"'));
    assert.equal((await copy.help()).counted.given, 0);
  });

  test('a compiled program is used by a user without write access, and nothing is written', async (t) => {
    const copy = await copied(t);
    const before = await readdir(copy.program, { recursive: true });
    await chmod(copy.compiled, 0o555);
    await chmod(copy.program, 0o555);
    try {
      const nobody = process.getuid?.() === 0 ? { uid: 65_534 } : {};
      const { counted } = await copy.help([], nobody);
      assert.equal(counted.accepted, counted.files);
      assert.deepEqual(await readdir(copy.program, { recursive: true }), before);
    } finally {
      await chmod(copy.program, 0o755);
      await chmod(copy.compiled, 0o755);
    }
  });

  test('the compiled program is not loaded where Node reads source maps', async (t) => {
    const copy = await copied(t);
    const { text, counted } = await copy.help(['--enable-source-maps']);
    assert.match(text, /^Usage: headgate start/);
    assert.equal(counted.files, 0);
  });
});

test('the bundled program declares the classes of the sources by const and not by var', async () => {
  const folder = join(dist, 'src/program');
  let constants = 0;
  for (const file of (await readdir(folder)).filter((it) => it.endsWith('.cjs'))) {
    let isOurs = false;
    for (const line of (await readFile(join(folder, file), 'utf8')).split('\n')) {
      const [, path] = /(?:^|; )\/\/ (\S+\.[cm]?[jt]s)$/.exec(line) ?? [];
      if (path !== undefined) isOurs = path.startsWith('src/');
      if (isOurs) assert.doesNotMatch(line, /^var [\w$]+ = class\b/, file);
      if (isOurs && /^const [\w$]+ = class\b/.test(line)) constants += 1;
    }
  }
  assert(constants > 0, 'there are some');
});
