/** The commands that a page of docs/ gives, for tests that run exactly those. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { root } from './package.ts';

/** The code block that the page marks as "```<language> <name>". */
export async function commandsOf(page: string, name: string): Promise<string> {
  const text = await readFile(join(root, page), 'utf8');
  const found = [...text.matchAll(/^```\w+ (\S+)\n([^]*?)^```$/gm)].filter(([, named]) => named === name);
  assert.equal(found.length, 1, `${page} has one block named ${name}`);
  return found[0]?.[2] ?? '';
}
