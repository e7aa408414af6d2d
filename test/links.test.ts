/** Every link of a page leads to a file that is there, and to a heading of it; every decision that is named is there. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { test } from 'node:test';
import { root } from './support/package.ts';

const read = (name: string) => readFileSync(join(root, name), 'utf8');
const pages = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => join('docs', name)),
];

/** As GitHub makes them of headings: of two alike the second one has `-1`. */
function anchorsOf(name: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  const text = read(name).replaceAll(/^```[^]*?^```$/gm, '');
  for (const [, id = ''] of text.matchAll(/<a id="([^"]+)">/g)) anchors.add(id);
  for (const [, heading = ''] of text.matchAll(/^#+ (.*)$/gm)) {
    const plain = heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\- _]/gu, '')
      .replaceAll(' ', '-');
    let anchor = plain;
    for (let n = 1; anchors.has(anchor); n++) anchor = `${plain}-${n}`;
    anchors.add(anchor);
  }
  return anchors;
}

test('every link of every documentation page leads somewhere', () => {
  const broken: string[] = [];
  for (const page of pages) {
    const text = read(page).replaceAll(/^```[^]*?^```$/gm, '');
    for (const [, link = ''] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(link)) continue;
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? page : normalize(join(dirname(page), path));
      if (!existsSync(join(root, target))) broken.push(`${page}: ${link}`);
      else if (anchor !== undefined && target.endsWith('.md') && !anchorsOf(target).has(anchor))
        broken.push(`${page}: ${link}, no such heading`);
    }
  }
  assert.deepEqual(broken, []);
});

test('every decision that sources and pages name by number exists', () => {
  const known = new Set(readdirSync(join(root, 'docs/decisions')).map((name) => name.slice(0, 4)));
  const files = ['src', 'test', 'bench', 'scripts', 'deploy', 'docs'].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(?:ts|tsx|mjs|cjs|sql|md|yaml)$/.test(name))
      .map((name) => join(folder, name)),
  );
  const missing = [...files, 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'README.md'].flatMap((file) =>
    [...read(file).matchAll(/\bdecisions?(?:\/| )(0\d{3})(?:(?:, | and )(0\d{3}))*\b/g)].flatMap(([words]) =>
      (words.match(/0\d{3}/g) ?? [])
        .filter((number) => !known.has(number))
        .map((number) => `${file}: ${number}`),
    ),
  );
  assert.deepEqual(missing, []);
});
