/**
 * What `npm start` and `npm test` build, in a small checkout with the real scripts: only what has changed, and never less. The right value is a file's
 * content, or that it is not there.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, readdir, readFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { before, suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { wholeFile } from './support/cleanup.ts';
import { temporaryFolder } from './support/headgate.ts';
import { root } from './support/package.ts';
import { run } from './support/run.ts';
import type { Ran } from './support/run.ts';
import { inLong, sampleOf } from './support/sample.ts';

const files: Readonly<Record<string, string>> = {
  'package.json': '{ "type": "module" }',
  'src/app/cli.ts': "import { word } from '../kit/word.ts';\n\nprocess.stdout.write(`${word}\\n`);\n",
  'src/app/embed.ts': "export { word } from '../kit/word.ts';\n",
  'src/app/listeners/entry.ts': 'process.exitCode = 0;\n',
  'src/kit/word.ts': "export const word: string = 'one';\n",
  'src/kit/word.test.ts': "import { word } from './word.ts';\n\nprocess.stdout.write(word);\n",
  'src/catalog/migrations/0001.sql': 'SELECT 1;\n',
  'src/console/page/main.tsx': "import { word } from '../../kit/word.ts';\n\ndocument.title = word;\n",
  'src/console/page/style.css': 'body { margin: 0 }\n',
  'src/console/page/index.html': '<link href="style.css"><script src="main.js"></script>\n',
  'src/console/page/icon.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>\n',
  'test/gone.test.ts': 'process.exitCode = 0;\n',
};
const everything =
  /^building code, page types, page, program, SQL, compiled program \(all of it: up to a minute, once\) … [\d.]+ s\n$/;

const all = wholeFile();
let built: Checkout;

class Checkout {
  readonly folder: string;

  constructor(folder: string) {
    this.folder = folder;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  async write(name: string, text: string): Promise<void> {
    await mkdir(dirname(this.path(name)), { recursive: true });
    await writeFile(this.path(name), text);
  }

  build(...args: readonly string[]): Promise<Ran> {
    return run(process.execPath, [this.path('scripts/build.mjs'), ...args], { cwd: this.folder });
  }

  /** What a build says. */
  async said(...args: readonly string[]): Promise<string> {
    const { code, stdout, stderr } = await this.build(...args);
    assert.equal(code, 0, stdout + stderr);
    return stdout + stderr;
  }

  /** What the program says, and then the module by itself. */
  async words(): Promise<readonly string[]> {
    const { stdout } = await run(process.execPath, [this.path('dist/src/app/cli.js')]);
    const module = await run(process.execPath, [this.path('dist/src/kit/word.test.js')]);
    return [stdout.trim(), module.stdout];
  }

  async copy(t: TestContext): Promise<Checkout> {
    const folder = await temporaryFolder(t);
    await run('cp', ['-a', `${this.folder}/.`, folder]);
    return new Checkout(folder);
  }
}

async function made(): Promise<Checkout> {
  const checkout = new Checkout(await temporaryFolder(all));
  for (const [name, text] of Object.entries(files)) await checkout.write(name, text);
  await cp(join(root, 'src/app/load.cjs'), checkout.path('src/app/load.cjs'));
  await mkdir(checkout.path('scripts'));
  for (const name of await readdir(join(root, 'scripts')))
    if (/^(?:build|compile)/.test(name))
      await cp(join(root, 'scripts', name), checkout.path(`scripts/${name}`));
  for (const name of ['tsconfig.json', 'tsconfig.package.json', 'tsconfig.page.json'])
    await cp(join(root, name), checkout.path(name));
  await symlink(join(root, 'node_modules'), checkout.path('node_modules'));
  return checkout;
}

const two = "export const word: string = 'two';\n";

suite('scripts/build.mjs builds changed sources only', () => {
  before(async () => {
    built = await made();
    assert.match(await built.said(), everything);
    assert.deepEqual(await built.words(), ['one', 'one']);
  });

  test('a build without changes does and prints nothing, in a copied checkout too', async (t) => {
    assert.equal(await built.said(), '');
    assert.equal(await (await built.copy(t)).said(), '');
  });

  test('a build detects a changed file by its content, whatever its modification time', async (t) => {
    const checkout = await built.copy(t);
    await checkout.write('src/kit/word.ts', two);
    await utimes(checkout.path('src/kit/word.ts'), 1, 1);
    assert.match(await checkout.said(), /^building code, page types, page, program, compiled program … /);
    assert.deepEqual(await checkout.words(), ['two', 'two']);
    assert.match(await readFile(checkout.path(await mainOf(checkout)), 'utf8'), /two/);
    await checkout.write('test/gone.test.ts', 'process.exitCode = 1;\n');
    assert.match(await checkout.said(), /^building code … /);
    await checkout.write('src/catalog/migrations/0002.sql', 'SELECT 2;\n');
    assert.match(await checkout.said(), /^building SQL … /);
    assert.equal(
      await readFile(checkout.path('dist/src/catalog/migrations/0002.sql'), 'utf8'),
      'SELECT 2;\n',
    );
    await checkout.write('src/console/page/style.css', 'body { margin: 1px }\n');
    assert.match(await checkout.said(), /^building page types, page … /);
    assert.equal(
      (await readdir(checkout.path('dist/console'))).filter((name) => name.endsWith('.css')).length,
      1,
    );
    assert.equal(await checkout.said(), '');
  });

  test('a build removes the output of deleted sources and foreign files from dist/', async (t) => {
    const checkout = await built.copy(t);
    await rm(checkout.path('test/gone.test.ts'));
    await rm(checkout.path('src/catalog/migrations/0001.sql'));
    await checkout.write('dist/src/strange/other.test.js', '');
    await checkout.said();
    const left = await readdir(checkout.path('dist'), { recursive: true });
    assert.deepEqual(
      left.filter((name) => /^test|gone|strange|\.sql$/.test(name)),
      [],
    );
    assert.deepEqual(await checkout.words(), ['one', 'one']);
  });

  const spoils = [
    ['removed', (path: string) => rm(path, { recursive: true })],
    ['altered', (path: string) => writeFile(path, '// altered\n')],
  ] as const;
  for (const [what, spoil] of sampleOf<(typeof spoils)[number]>(spoils, 1))
    test(`a build recreates a file of dist/ that was ${what}`, async (t) => {
      const checkout = await built.copy(t);
      const compiled = (await readdir(checkout.path('dist/src/program/compiled')))[0] ?? assert.fail();
      const main = (await mainOf(checkout)).slice('dist/'.length);
      const names = ['src/kit/word.js', 'src/app/cli.js', main, `src/program/compiled/${compiled}`];
      names.push('src/catalog/migrations/0001.sql', '.tsbuildinfo');
      for (const name of sampleOf(names, 1)) {
        const right = await readFile(checkout.path(`dist/${name}`));
        await spoil(checkout.path(`dist/${name}`));
        assert.match(await checkout.said(), /^building /);
        // V8's own is not the same twice.
        const again = await readFile(checkout.path(`dist/${name}`));
        if (!name.endsWith('.bin')) assert.deepEqual(again, right, name);
        assert.equal(again.length, right.length, name);
        assert.equal(await checkout.said(), '');
      }
      await spoil(checkout.path('dist/.build.json'));
      assert.match(await checkout.said(), everything);
    });

  test('a build fails for a type error until it is corrected', async (t) => {
    const checkout = await built.copy(t);
    const errors = [
      ['src/kit/word.ts', 'export const word: string = 2;\n'],
      ['src/console/page/main.tsx', 'document.title = 2;\n'],
    ] as const;
    for (const [name, wrong] of sampleOf<(typeof errors)[number]>(errors, 1)) {
      await checkout.write(name, wrong);
      for (const _ of [1, 2]) {
        const { code, stderr } = await checkout.build();
        assert.equal(code, 1, stderr);
        assert.match(stderr, /failed after [\d.]+ s\n.*'number' is not assignable to type 'string'/s);
      }
      await checkout.write(name, files[name] ?? assert.fail());
      await checkout.said();
      assert.deepEqual(await checkout.words(), ['one', 'one']);
    }
  });

  inLong('a build fails while an imported file is missing, and succeeds after that', async (t) => {
    const checkout = await built.copy(t);
    await rename(checkout.path('src/kit/word.ts'), checkout.path('src/kit/other.ts'));
    for (const _ of [1, 2]) assert.equal((await checkout.build()).code, 1);
    await rename(checkout.path('src/kit/other.ts'), checkout.path('src/kit/word.ts'));
    await checkout.said();
    assert.deepEqual(await checkout.words(), ['one', 'one']);
    assert.equal(await checkout.said(), '');
  });

  test('a build after a killed one runs again, even with unchanged sources', async (t) => {
    const checkout = await built.copy(t);
    for (const ms of sampleOf([0, 150, 300], 1)) {
      await checkout.write('src/kit/word.ts', two);
      const child = spawn(process.execPath, [checkout.path('scripts/build.mjs')], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      await once(child.stderr, 'data');
      // The moment of the kill is what is tried; nothing is waited for.
      setTimeout(() => child.kill('SIGKILL'), ms);
      await once(child, 'exit');
      await checkout.write('src/kit/word.ts', files['src/kit/word.ts'] ?? assert.fail());
      await checkout.said();
      assert.deepEqual(await checkout.words(), ['one', 'one']);
    }
  });

  test('a build waits for another build of the checkout, and then has nothing to do', async (t) => {
    const checkout = await built.copy(t);
    await checkout.write('src/kit/word.ts', two);
    const said = await Promise.all([1, 2, 3].map(() => checkout.said()));
    assert.equal(said.filter((text) => text !== '').length, 1, said.join(''));
    assert.deepEqual(await checkout.words(), ['two', 'two']);
  });

  inLong('a build for the package leaves out tests, and the next build has them again', async (t) => {
    const checkout = await built.copy(t);
    await checkout.said('--package');
    const has = async () =>
      (await readdir(checkout.path('dist'), { recursive: true })).some((name) => name.includes('.test.'));
    assert.equal(await has(), false);
    assert.match(await checkout.said(), everything);
    assert.equal(await has(), true);
  });

  inLong('a build with other compiler settings starts from scratch', async (t) => {
    const checkout = await built.copy(t);
    const settings = await readFile(checkout.path('tsconfig.json'), 'utf8');
    await checkout.write('tsconfig.json', settings.replace('"sourceMap": true', '"sourceMap": false'));
    assert.match(await checkout.said(), everything);
    assert.equal((await readdir(checkout.path('dist/src/kit'))).includes('word.js.map'), false);
  });
});

/** The page's program, whose name has a hash. */
async function mainOf(checkout: Checkout): Promise<string> {
  const names = await readdir(checkout.path('dist/console'));
  return `dist/console/${names.find((name) => /^main-\w+\.js$/.test(name)) ?? assert.fail()}`;
}
