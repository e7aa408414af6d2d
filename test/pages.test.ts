/** What pages must say where it is needed, and what was true once and must not come back. */
import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { senders } from '../src/senders/senders.ts';

const page = (path: string): Promise<string> =>
  readFile(fileURLToPath(new URL(`../../docs/${path}`, import.meta.url)), 'utf8');

test('the page of a sender that signs the URL names HEADGATE_PUBLIC_URL before its first statement', async () => {
  const signing = [...senders.values()].filter(({ signsUrl }) => signsUrl);
  assert.ok(signing.length > 0);
  for (const { id } of signing) {
    const text = await page(`senders/${id}.md`);
    const [set, first] = [text.indexOf('HEADGATE_PUBLIC_URL'), text.indexOf('CREATE ')];
    assert.ok(set >= 0 && set < first, id);
  }
});

test("pages of senders with delivery ids show dedupe = 'sender' and a PRIMARY KEY", async () => {
  for (const id of ['github', 'stripe', 'svix', 'shopify']) {
    const text = await page(`senders/${id}.md`);
    assert.match(text, /CREATE TABLE .*dedupe = 'sender'/, id);
    assert.match(text, /PRIMARY KEY/, id);
  }
});

const said: readonly [path: string, says: RegExp][] = [
  ['senders/intercom.md', /\bHEAD\b/],
  ['senders/discord.md', /two protocols/],
  ['senders/aws_sns.md', /learn/],
  ['deploy/kubernetes.md', /\[`pg_dump` of version 18.*\]\(backups\.md\)/],
  ['deploy/backups.md', /^pg_dump -h /m],
  ['operating/scaling.md', /^\| `lock\/` \|/m],
  ['operating/scaling.md', /^\| `headgate\.json` \|/m],
];
const unsaid: readonly [path: string, says: RegExp][] = [
  ['sql/statements.md', /TLS is not offered/],
  ['deploy/upgrading.md', /set every secret again/],
];

test('documentation pages contain required facts and no outdated ones', async () => {
  for (const [path, says] of said) assert.match(await page(path), says, path);
  for (const [path, says] of unsaid) assert.doesNotMatch(await page(path), says, path);
});

/** The sentences of a page, without code, links and headings of files. */
const prose = (text: string): string =>
  text
    .replaceAll(/^```[^]*?^```$/gm, '')
    .replaceAll(/\]\([^)]*\)/g, ']')
    .replaceAll('`', '')
    .replaceAll(/\s+/g, ' ');

/** How sentences began that a new reader had to read twice. */
const readTwice = [
  /\bwhoever\b/i,
  /\bthose (?:that|who|which|whose)\b/i,
  /(?<!there )\b(?:is|are) none\b/i,
  /\bnone is [\w ]+ but\b/i,
  /\bof whom\b/i,
  /\breads? [45]\d\d\b/i,
];

test('documentation and metric helps contain none of the constructions that are hard to read', async () => {
  const folders = ['', 'operating/', 'deploy/', 'sql/'];
  const root = fileURLToPath(new URL('../../', import.meta.url));
  const listed = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(`${root}docs/${folder}`))
        .filter((name) => name.endsWith('.md') && !/^(?:benchmarks|console|events-api)/.test(name))
        .map((name) => `docs/${folder}${name}`),
    ),
  );
  const sources = ['admin/metrics', 'admin/watch-metrics', 'admin/request-metrics'];
  const texts = [
    ...['README.md', ...listed.flat()].map(async (path) => [
      path,
      prose(await readFile(`${root}${path}`, 'utf8')),
    ]),
    ...sources.map(async (name) => {
      const source = await readFile(`${root}src/${name}.ts`, 'utf8');
      return [name, [...source.matchAll(/help:\s*'([^']*)'/g)].map(([, help]) => help).join('. ')];
    }),
  ];
  const found = (await Promise.all(texts)).flatMap(([path = '', text = '']) =>
    readTwice.flatMap((form) => {
      const at = text.search(form);
      return at < 0 ? [] : [`${path}: …${text.slice(Math.max(0, at - 60), at + 60)}…`];
    }),
  );
  assert.deepEqual(found, []);
});
