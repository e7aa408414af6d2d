import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { goals, goalTable, sectionOf, withSection } from './goals.ts';
import { benches } from './benches.ts';
import { source } from './processes.ts';

suite('the report of the benchmarks', () => {
  test('the goal of a benchmark is met, missed, failed or not measured yet', () => {
    const text = goalTable({ bare: 1.034, halfLoad: 25, memory: Number.NaN }, '');
    const line = (what: string) => text.split('\n').find((it) => it.includes(what));
    assert.match(line(goals.bare.what) ?? '', /\| ≥ 1 \| \*\*1\.03\*\* \| \[single-events\]/);
    assert.match(line(goals.halfLoad.what) ?? '', /\| ≤ 20 ms \| \*\*25\.0 ms\*\* \(missed\) \|/);
    assert.match(line(goals.memory.what) ?? '', /\| failed \|/);
    assert.match(line(goals.events.what) ?? '', /\| not measured \|/);
  });

  test('the benchmark report keeps results that a run did not measure', () => {
    const first = goalTable({ bare: 0.75, manyTables: 0.6 }, '');
    const second = goalTable({ bare: 0.8 }, first);
    assert.ok(second.includes('**0.80**') && second.includes('**0.60**') && !second.includes('**0.75**'));
    assert.equal(goalTable({}, second), second);
  });

  test('a section of the benchmark report is put between its marks and nowhere else', () => {
    const page = 'a\n<!-- x:start -->\nold\n<!-- x:end -->\nb\n';
    const after = withSection(page, 'x', 'new');
    assert.equal(after, 'a\n<!-- x:start -->\nnew\n<!-- x:end -->\nb\n');
    assert.equal(sectionOf(after ?? '', 'x'), 'new');
    assert.equal(withSection(page, 'y', 'new'), null);
    assert.equal(sectionOf(page, 'y'), '');
  });

  test('every benchmark and every goal has its place in the pages', () => {
    const page = (name: string) => readFileSync(source(`../${name}`), 'utf8');
    for (const bench of benches) {
      const name = 'docs/benchmarks.md';
      assert.notEqual(
        withSection(page(name), bench.name, ''),
        null,
        `${name} has no place for ${bench.name}`,
      );
    }
    for (const { section } of Object.values(goals)) {
      assert.ok(benches.some((bench) => bench.name === section));
      assert.match(page('docs/benchmarks.md'), new RegExp(`^## .*|<a id="${section}">`, 'm'));
    }
    for (const name of ['run', 'goals'])
      assert.notEqual(withSection(page('docs/benchmarks.md'), name, ''), null);
  });
});
