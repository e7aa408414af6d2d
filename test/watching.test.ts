/** What stands in deploy/ for Prometheus and Grafana names metrics and labels that exist, and pages that explain them. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { suite, test } from 'node:test';
import { parse } from 'yaml';
import { createMetrics } from '../src/admin/metrics.ts';
import type { Observation, TableName } from '../src/observe/observations.ts';

const root = new URL('../../', import.meta.url);
const read = (path: string) => readFileSync(new URL(path, root), 'utf8');
const table: TableName = { database: 'dev', schema: 'public', table: 't' };

/** At least one sample of every metric that has labels. */
const samples: readonly Observation[] = [
  { kind: 'request.answered', table, status: 401, code: 'signature_failed', rows: 0, seconds: 0.1 },
  { kind: 'request.answered', table, status: 200, code: 'committed', rows: 1, seconds: 0.1 },
  { kind: 'batch.answered', table, code: 'committed', rows: 1, seconds: 0.1 },
  { kind: 'websocket.opened', table },
  { kind: 'websocket.closed', table, opened: true, code: 'closed', batches: 1, rows: 1, seconds: 1 },
  { kind: 'catalog.loaded', database: 'dev', tables: 1, unusable: 0, version: 1 },
  { kind: 'group.committed', table, rows: 1, bytes: 1, seconds: 0.1 },
  { kind: 'deliveries.differ', table, deliveries: 1 },
  { kind: 'reconcile.refused', table, reason: 'the API answered 503', repeated: false },
  { kind: 'delivery.attempted', table, row: '1', outcome: 'delivered', reason: null },
  { kind: 'delivery.counted', table, open: 1, dead: 0, oldestS: 1 },
];

/** Labels by metric, as `/metrics` has them. */
async function knownMetrics(): Promise<Map<string, Set<string>>> {
  const metrics = createMetrics({
    lanes: () => [{ table, rows: 1 }],
    load: () => ({ connections: 1, bytesInFlight: 1 }),
    spool: () => ({
      bytes: 1,
      bytesMax: 2,
      quarantined: 0,
      held: 0,
      tables: [{ name: table, requests: 1, seconds: 1 }],
    }),
  });
  samples.forEach(metrics.observe);
  const known = new Map<string, Set<string>>();
  for (const line of (await metrics.text()).split('\n')) {
    const [, declared] = /^# TYPE (\w+) /.exec(line) ?? [];
    if (declared !== undefined) known.set(declared, known.get(declared) ?? new Set());
    const [, name = '', labels = ''] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? [];
    if (name === '') continue;
    const found = known.get(name) ?? new Set();
    for (const [, label = ''] of labels.matchAll(/(\w+)="/g)) found.add(label);
    known.set(name, found);
  }
  return known;
}

/** What Prometheus itself adds to every series. */
const scraped = new Set(['instance', 'job']);
const words = new Set(
  'sum min max by rate increase or and unless topk histogram_quantile le on ignoring'.split(' '),
);

function checkExpression(expression: string, known: ReadonlyMap<string, ReadonlySet<string>>): void {
  const depth = { '(': 0, '{': 0, '[': 0 };
  const open = { ')': '(', '}': '{', ']': '[' } as const;
  const bare = expression.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""');
  for (const char of bare) {
    if (char in depth) depth[char as keyof typeof depth] += 1;
    if (char in open) depth[open[char as keyof typeof open]] -= 1;
    assert(
      Object.values(depth).every((n) => n >= 0),
      expression,
    );
  }
  assert(
    Object.values(depth).every((n) => n === 0),
    expression,
  );
  const grouped = new Set(
    [...bare.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(/,\s*/)),
  );
  const named: string[] = [];
  for (const [, name = '', matchers] of bare
    .replaceAll(/\bby \([^)]*\)/g, '')
    .replaceAll(/\[[^\]]*\]/g, '')
    .matchAll(/\b([a-zA-Z_]\w*)\b(?:\{([^}]*)\})?/g)) {
    if (words.has(name)) continue;
    if (name !== 'up') assert(known.has(name), `${name} in ${expression}`);
    named.push(name);
    for (const matcher of (matchers ?? '').split(',').filter((part) => part !== '')) {
      const [, label = '', operator] = /^(\w+)(=~|!~|!=|=)""$/.exec(matcher.trim()) ?? [];
      assert(operator !== undefined, `${matcher} in ${expression}`);
      assert(scraped.has(label) || known.get(name)?.has(label), `${label} of ${name} in ${expression}`);
    }
  }
  assert(named.length > 0, expression);
  for (const label of grouped)
    assert(
      scraped.has(label) || named.some((name) => known.get(name)?.has(label)),
      `by ${label} in ${expression}`,
    );
}

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook: string };
}

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly gridPos: { readonly x: number; readonly w: number };
  readonly targets?: readonly { readonly expr: string }[];
}

suite('alert rules and dashboards in deploy/ are correct', () => {
  test('alert rules are well-formed, name existing metrics and link to an explanation', async () => {
    const known = await knownMetrics();
    const { groups } = parse(read('deploy/prometheus/alerts.yaml')) as {
      groups: readonly { readonly rules: readonly Rule[] }[];
    };
    const rules = groups.flatMap((group) => group.rules);
    assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
    const headings = new Set(
      [...read('docs/operating/monitoring.md').matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
        title.toLowerCase(),
      ),
    );
    for (const rule of rules) {
      assert.match(rule.alert, /^Headgate[A-Z]\w+$/);
      assert.match(rule.for ?? '1m', /^\d+[smh]$/);
      assert.match(rule.labels.severity, /^(critical|warning|info)$/);
      checkExpression(rule.expr, known);
      const [page, anchor = ''] = rule.annotations.runbook.split('#');
      assert.equal(page, 'docs/operating/monitoring.md');
      assert.equal(anchor, rule.alert.toLowerCase());
      assert(headings.has(anchor), `docs/operating/monitoring.md has no section ${rule.alert}`);
      for (const [, label = ''] of rule.annotations.summary.matchAll(/\$labels\.(\w+)/g))
        assert(
          scraped.has(label) || rule.expr.includes(label) || ['database', 'schema', 'table'].includes(label),
        );
    }
  });

  test('the Grafana dashboard is well-formed, names existing metrics and describes each panel', async () => {
    const known = await knownMetrics();
    const { panels, templating } = JSON.parse(read('deploy/grafana/headgate.json')) as {
      panels: readonly Panel[];
      templating: { readonly list: readonly { readonly query: string | { readonly query: string } }[] };
    };
    assert.equal(new Set(panels.map(({ id }) => id)).size, panels.length);
    for (const { type, title, description, targets, gridPos } of panels) {
      assert(gridPos.x + gridPos.w <= 24, title);
      if (type === 'row') continue;
      assert(description !== undefined && description !== '', title);
      assert(targets !== undefined && targets.length > 0, title);
      for (const { expr } of targets) checkExpression(expr.replaceAll('$__rate_interval', '5m'), known);
    }
    for (const { query } of templating.list) {
      const text = typeof query === 'string' ? query : query.query;
      const [, name] = /^label_values\((\w+), \w+\)$/.exec(text) ?? [];
      assert(text === 'prometheus' || (name !== undefined && known.has(name)), text);
    }
  });

  test('the check of Prometheus expressions detects invalid ones', async () => {
    const known = await knownMetrics();
    for (const bad of [
      'headgate_nothing > 0',
      'headgate_ready{color="red"} == 0',
      'sum(headgate_ready',
      'sum by (color) (headgate_ready)',
      'headgate_ready{instance} == 1',
      '1 > 0',
    ])
      assert.throws(() => checkExpression(bad, known), { code: 'ERR_ASSERTION' }, `bad: ${bad}`);
  });
});

test('docs/operating/ explains every metric and every kind of log line', async () => {
  const page = ['monitoring', 'security', 'scaling']
    .map((name) => read(`docs/operating/${name}.md`))
    .join('');
  const kinds = [...read('src/observe/observations.ts').matchAll(/\bkind: '([\w.]+)'/g)].map(
    ([, kind = '']) => kind,
  );
  assert(kinds.length > 40);
  const metrics = [...(await knownMetrics()).keys()]
    .map((name) => name.replace(/_(?:bucket|sum|count)$/, ''))
    .filter((name) => name.startsWith('headgate_'));
  const silent = [...kinds, ...metrics].filter(
    (word) => !page.includes(`\`${word}\``) && !page.includes(`\`${word}{`),
  );
  assert.deepEqual(silent, [], 'docs/operating/monitoring.md has no row for these');
});

test('100,000 unknown paths, tables and addresses create no metric series', async () => {
  const metrics = createMetrics({
    tablesMax: 100,
    lanes: () => [],
    load: () => ({ connections: 0, bytesInFlight: 0 }),
  });
  samples.forEach(metrics.observe);
  const series = async () =>
    (await metrics.text()).split('\n').filter((line) => line.startsWith('headgate_')).length;
  const unknown: Observation = {
    kind: 'request.answered',
    table: null,
    status: 404,
    code: 'not_found',
    rows: 0,
    seconds: 0.001,
  };
  metrics.observe(unknown);
  metrics.observe({ kind: 'rejected.dropped', database: 'dev', why: 'rate', rows: 1 });
  metrics.observe({
    kind: 'websocket.closed',
    table: null,
    opened: false,
    code: 'not_found',
    batches: 0,
    rows: 0,
    seconds: 0,
  });
  metrics.observe({ kind: 'batch.answered', table: null, code: 'not_found', rows: 0, seconds: 0 });
  const before = await series();
  for (let i = 0; i < 100_000; i++) {
    metrics.observe(unknown);
    metrics.observe({ kind: 'sql.connected', session: i, remoteAddress: `10.0.0.${i}` });
    metrics.observe({ kind: 'rejected.dropped', database: `db${i}`, why: 'rate', rows: 1 });
    metrics.observe({
      kind: 'websocket.closed',
      table: null,
      opened: false,
      code: 'not_found',
      batches: 0,
      rows: 0,
      seconds: 0,
    });
    metrics.observe({ kind: 'batch.answered', table: null, code: 'not_found', rows: 0, seconds: 0 });
    metrics.observe({ kind: 'request.failed', requestId: `id${i}`, error: new Error(`e${i}`) });
  }
  assert.equal(await series(), before);
  // Tables and databases that really come and go have bounds of their own.
  for (let i = 0; i < 100_000; i++) {
    metrics.observe({ ...unknown, table: { ...table, table: `t${i}` } });
    metrics.observe({ kind: 'catalog.loaded', database: `db${i}`, tables: 1, unusable: 0, version: 1 });
  }
  const bounded = await series();
  assert(bounded < before + 500, `${before} → ${bounded}`);
});
