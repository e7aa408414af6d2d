/** The repository checks itself: who imports whom, how long a file is, who reads the environment. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { suite, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { settingsTable } from '../src/config/settings.ts';
import { isWorthKeeping, refusals, restsOnCatalog } from '../src/errors/refusals.ts';
import type { RefusalCode } from '../src/errors/refusals.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const filesBelow = (folder: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name));
const sources = filesBelow('src').filter((name) => /\.tsx?$/.test(name));
const code = sources.filter((name) => !/\.(test|long)\.ts$/.test(name));
const read = (name: string) => readFileSync(join(root, name), 'utf8');

/** Each line may import from itself where it is one room, and from every line above it. */
const layers: readonly (readonly string[])[] = [
  ['kit'],
  ['client'],
  ['errors'],
  ['config'],
  ['observe'],
  ['types'],
  ['engine', 'access'],
  ['http', 'secrets', 'telemetry', 'deliver'],
  ['host', 'validate', 'senders', 'relations'],
  ['catalog'],
  ['decode', 'keep', 'acme', 'risingwave'],
  ['commit'],
  ['batch'],
  ['reject', 'reconcile'],
  ['spool'],
  ['ingest'],
  ['listen', 'ddl'],
  ['wire'],
  ['gateway'],
  ['admin', 'operator'],
  ['alerts', 'console'],
  ['cli'],
  ['app'],
];

function roomOf(name: string): string {
  const path = relative('src', name).split('/');
  return path[0] ?? '';
}

suite('the repository keeps its own rules', () => {
  test('source files import only from earlier rooms', () => {
    const layerOf = (room: string) => layers.findIndex((rooms) => rooms.includes(room));
    const wrong: string[] = [];
    for (const name of code) {
      const from = roomOf(name);
      assert.notEqual(layerOf(from), -1, `${name} belongs to no layer`);
      for (const [, path = ''] of read(name).matchAll(/from '(\.[^']+)'/g)) {
        const to = roomOf(join(dirname(name), path));
        if (to !== from && layerOf(to) >= layerOf(from)) wrong.push(`${name} imports ${path}`);
      }
    }
    assert.deepEqual(wrong, []);
  });

  test('no file outside src/console/page imports one of the page', () => {
    const page = 'src/console/page/';
    const outside = [...sources, ...filesBelow('test').filter((name) => name.endsWith('.ts'))].filter(
      (name) => !name.startsWith(page),
    );
    for (const name of outside) {
      for (const [, path = ''] of read(name).matchAll(/from '(\.[^']+)'/g)) {
        assert.ok(
          !join(dirname(name), path).startsWith(page),
          `${name} imports ${path}, which is only built for browsers`,
        );
      }
    }
  });

  test('source files have no import cycles', () => {
    const imported = new Map(
      code.map((name) => [
        name,
        [...read(name).matchAll(/from '(\.[^']+)'/g)].map(([, path = '']) => join(dirname(name), path)),
      ]),
    );
    const done = new Set<string>();
    const circleFrom = (name: string, way: readonly string[]): readonly string[] | null => {
      if (way.includes(name)) return [...way.slice(way.indexOf(name)), name];
      if (done.has(name)) return null;
      for (const next of imported.get(name) ?? []) {
        const circle = circleFrom(next, [...way, name]);
        if (circle !== null) return circle;
      }
      done.add(name);
      return null;
    };
    for (const name of code) assert.equal(circleFrom(name, []), null);
  });

  test('ARCHITECTURE.md has every room, in the order of the layers, and names only files that exist', () => {
    const rows = [...read('ARCHITECTURE.md').matchAll(/^\| `(\w+)\/` (\|.*)$/gm)];
    assert.deepEqual(rows.map(([, room = '']) => room).toSorted(), layers.flat().toSorted());
    const places = rows.map(([, room = '']) => layers.findIndex((rooms) => rooms.includes(room)));
    assert.deepEqual(
      places,
      places.toSorted((a, b) => b - a),
    );
    const missing = rows.flatMap(([, room = '', text = '']) =>
      [...text.matchAll(/`([\w/-]+\.(?:tsx?|cjs))`/g)]
        .map(([, name = '']) => join('src', room, name))
        .filter((name) => !existsSync(join(root, name))),
    );
    assert.deepEqual(missing, []);
    // Elsewhere in it a file is named with its room.
    const others = read('ARCHITECTURE.md').replaceAll(/^\| `\w+\/` \|.*$/gm, '');
    const gone = [...others.matchAll(/`([\w-]+\/[\w/-]+\.tsx?)`/g)]
      .map(([, name = '']) => name)
      .filter((name) => !existsSync(join(root, 'src', name)) && !existsSync(join(root, name)));
    assert.deepEqual(gone, []);
  });

  test('no source file is above 600 lines', () => {
    const all = [...sources, ...filesBelow('test'), ...filesBelow('bench')].filter((name) =>
      name.endsWith('.ts'),
    );
    all.push(...filesBelow('src').filter((name) => name.endsWith('.sql')));
    assert.deepEqual(
      all.filter((name) => read(name).split('\n').length > 601),
      [],
    );
  });

  test('source files other than cli.ts do not read process.env and process.argv', () => {
    assert.deepEqual(
      code.filter((name) => /process\.(env|argv)\b/.test(read(name))),
      ['src/app/cli.ts'],
    );
  });

  test('every source file has a header comment', () => {
    const silent = code.filter((name) => !/^(#!.*\n)?\/\*\*/.test(read(name)));
    assert.deepEqual(
      silent.filter((name) => !name.startsWith('src/kit/')),
      [],
    );
  });

  test('comments of source files name only files that exist', () => {
    const there = [...sources, ...['test', 'scripts', 'bench'].flatMap(filesBelow)].map((name) => `/${name}`);
    // The sources of senders are named by the paths that they have there.
    const wrong = code
      .filter((name) => !name.startsWith('src/senders/known/'))
      .flatMap((name) =>
        [...read(name).matchAll(/^ *(?:\/\*)?\*.*|\/\/ .*/gm)]
          .flatMap(([comment]) => comment.match(/(?<![\w./-])[\w-][\w./-]*\.tsx?\b/g) ?? [])
          .filter((file) => !there.some((known) => known.endsWith(`/${file}`)))
          .map((file) => `${name}: ${file}`),
      );
    assert.deepEqual(wrong, []);
  });

  test('the header of a source file that lists refusal codes lists all of them', () => {
    const codes = Object.keys(refusals);
    const wrong = code.flatMap((name) => {
      const text = read(name);
      const door = /^(?:#!.*\n)?\/\*\*[\s\S]*?\*\//.exec(text)?.[0] ?? '';
      const said = [...door.matchAll(/`([a-z_]+)`/g)].map(([, it]) => it);
      // Of a table of causes the codes are examples; `internal` is everybody's, and a bug.
      if (!/refuses? (?:[^.;]*,? )?with/.test(door) || !codes.some((it) => said.includes(it))) return [];
      const made = [...text.matchAll(/(?:refusal|Refused|fail|refuse)\(\s*'([a-z_]+)'/g)].map(
        ([, it = '']) => it,
      );
      const left = made.filter((it) => it !== 'internal' && codes.includes(it) && !said.includes(it));
      return left.map((it) => `${name} does not say ${it}`);
    });
    assert.deepEqual(wrong, []);
  });

  test('a refused body is kept for the owner of its table, and refused because of the catalog unless a header or a size is wrong', () => {
    const said = code
      .filter((name) => name.startsWith('src/decode/'))
      .flatMap((name) => [...(/^\/\*\*[\s\S]*?\*\//.exec(read(name))?.[0] ?? '').matchAll(/`([a-z_]+)`/g)]);
    const codes = new Set(said.map(([, word]) => word as RefusalCode));
    const final = [...codes].filter((it) => Object.hasOwn(refusals, it) && !refusals[it].retryable);
    assert(final.includes('body_not_form'));
    assert.deepEqual(
      final.filter((it) => !isWorthKeeping(it)),
      [],
      'isKept in src/errors/refusals.ts',
    );
    assert.deepEqual(
      final.filter((it) => !restsOnCatalog(it)).toSorted(),
      ['body_too_large', 'invalid_option'],
      'restsOnCatalog in src/errors/refusals.ts',
    );
  });

  test('every limit in the limits tables is used', () => {
    const tables = code.filter((name) => name.startsWith('src/config/limits'));
    const names = [
      ...tables
        .map(read)
        .join('')
        .matchAll(/^ {2}(\w+):/gm),
    ].map(([, name]) => name ?? '');
    // A row of a table, and its comment, is no use of what it names; what follows the table is.
    const texts = code.map((name) =>
      tables.includes(name) ? read(name).replaceAll(/^ {2}(?:\w+:|\/\*| \*).*$/gm, '') : read(name),
    );
    assert.deepEqual(
      names.filter((name) => !texts.some((text) => text.includes(name))),
      [],
    );
  });

  test('every setting is read outside the tables of settings', () => {
    const readers = code.filter((name) => !/config\/(?!resolve-).*settings\.ts$/.test(name)).map(read);
    // Those of a door are read as `${door}Tls…`.
    const unread = Object.keys(settingsTable).filter((name) => {
      const ofDoor = name.replace(/^(?:listen|sql|gateway|admin)/, '');
      return !readers.some((text) => new RegExp(`\\b${name}\\b|\\$\\{door\\}${ofDoor}\\b`).test(text));
    });
    assert.deepEqual(
      unread,
      [],
      'nothing reads these outside src/config/*settings.ts; src/config/limits.ts reads those that bound something',
    );
  });

  test('every export has an importer that is not a test', () => {
    const files = new Map(
      [...sources, ...['test', 'bench', 'scripts'].flatMap(filesBelow)]
        .filter((name) => /\.tsx?$/.test(name))
        .map((name) => [name, read(name)]),
    );
    const isTest = (name: string) => name.startsWith('test/') || /\.(test|long)\.ts$/.test(name);
    const importers = importersOf(files);
    const wrong: string[] = [];
    for (const [name, text] of files) {
      // What applications import. Types are let be: they name what an exported function takes and gives.
      if (Object.keys(packageExports).includes(name)) continue;
      for (const [, word = ''] of text.matchAll(exported)) {
        const by = [...(importers.get(`${name} ${word}`) ?? []), ...(importers.get(`${name} *`) ?? [])];
        const ownUses = text.split(new RegExp(`\\b${word}\\b`)).length - 2;
        if (by.length === 0) wrong.push(`${name}: ${word} is imported by nobody`);
        else if (ownUses === 0 && !isTest(name) && by.every(isTest))
          wrong.push(`${name}: ${word} is used by tests alone`);
      }
    }
    assert.deepEqual(wrong, []);
  });

  test('source file names consist of glossary terms and field words', () => {
    const terms = [...read('docs/glossary.md').matchAll(/^\| \*\*([^*]+)\*\*/gm)].flatMap(([, term = '']) =>
      term.split(/[ -]/),
    );
    const known = new Set([...terms, ...read('test/field-words.txt').split(/\s+/)]);
    // Entries of the table of senders are named by brand, and migrations by number.
    const named = filesBelow('src').filter(
      (name) => /\.(tsx?|cjs|css)$/.test(name) && !name.startsWith('src/senders/known/'),
    );
    const wrong = named.flatMap((name) =>
      relative('src', name)
        .replace(/(\.extended)?(\.d|\.pg)?(\.test|\.long)?\.\w+$/, '')
        .split(/[/-]/)
        .filter((word) => !isForm(word, known))
        .map(
          (word) =>
            `${name}: "${word}" is no glossary term and no word of PostgreSQL, HTTP, TLS, Node or TypeScript. ` +
            'Rename the file, or add the word to docs/glossary.md (a term of Headgate) or test/field-words.txt (a word of the field).',
        ),
    );
    assert.deepEqual(wrong, []);
  });

  test('every word in test/field-words.txt is used by a source file name', () => {
    const used = new Set(filesBelow('src').flatMap((name) => name.split(/[/.-]/)));
    assert.deepEqual(
      read('test/field-words.txt')
        .split(/\s+/)
        .filter((word) => word !== '' && !used.has(word)),
      [],
    );
  });

  test('every type name is declared once', () => {
    // The package for applications, and the files of the page, of which each names its own props and states.
    const apart = /^src\/(?:client|console\/page)\//;
    const declared = new Map<string, string[]>();
    for (const name of code) {
      for (const [, said = '', word = ''] of read(name).matchAll(
        /^(export )?(?:declare )?(?:abstract )?(?:type|interface|class) (\w+)/gm,
      ))
        if (said !== '' || !apart.test(name)) declared.set(word, [...(declared.get(word) ?? []), name]);
    }
    assert.deepEqual(
      [...declared]
        .filter(([, names]) => names.length > 1)
        .map(([word, names]) => `${word}: ${names.join(', ')}`),
      [],
    );
  });
});

/** Whether a word, or its singular, is known. */
const isForm = (word: string, known: ReadonlySet<string>) =>
  [word, word.replace(/s$/, ''), word.replace(/es$/, ''), word.replace(/ies$/, 'y')].some((it) =>
    known.has(it),
  );

/** What has no importer in the repository, and why. */
const packageExports: Readonly<Record<string, string>> = {
  'src/app/embed.ts': 'is `headgate`, for applications that run it in their own process',
  'src/client/client.ts': 'is `headgate/client`',
};

const exported = /^export (?:async )?(?:abstract )?(?:const|let|function\*?|class) (\w+)/gm;

/** Who imports what: `file name` → files; `file *` where all of it is taken. */
function importersOf(files: ReadonlyMap<string, string>): Map<string, string[]> {
  const importers = new Map<string, string[]>();
  const add = (from: string, path: string, names: readonly string[]) => {
    for (const name of names) {
      const key = `${join(dirname(from), path)} ${name}`;
      importers.set(key, [...(importers.get(key) ?? []), from]);
    }
  };
  for (const [file, text] of files) {
    for (const [, names, path = ''] of text.matchAll(
      /^(?:im|ex)port (?:type )?(?:{([^}]*)}|\*[^']*) from '(\.[^']+)'/gm,
    ))
      add(file, path, names === undefined ? ['*'] : names.split(',').map(importedName));
    for (const [, path = ''] of text.matchAll(/\bimport\('(\.[^']+)'\)/g)) add(file, path, ['*']);
  }
  return importers;
}

const importedName = (word: string) =>
  word
    .trim()
    .replace(/^type /, '')
    .replace(/ as .*$/, '');
