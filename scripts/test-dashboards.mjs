// Checks the alert rules and the dashboard with the tools of their readers: Prometheus' promtool, and Grafana's own types of a dashboard.
// `npm run test:dashboards`. Both are fetched, from Debian and npm, into the user's cache folder.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { cached, must, unpacked } from './commands.mjs';

const text = readFileSync('deploy/grafana/headgate.json', 'utf8');
const promtool = join(unpacked('prometheus', ['prometheus']), 'usr/bin/promtool');
const grafana = cached('grafana-schema-13.2.3');
const quietly = ['--no-save', '--no-audit', '--no-fund', '--ignore-scripts'];
if (!existsSync(join(grafana, 'node_modules/@grafana/schema')))
  must('npm', ['install', ...quietly, '--prefix', grafana, '@grafana/schema@13.2.3']);

mkdirSync(grafana, { recursive: true });
const folder = mkdtempSync(join(grafana, 'check-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

must(promtool, ['check', 'rules', 'deploy/prometheus/alerts.yaml']);

// The panels' queries as rules, so that promtool parses them; Grafana's variables are replaced by values.
const panels = JSON.parse(text).panels.flatMap((it) => [it, ...(it.panels ?? [])]);
const expressions = panels
  .flatMap((it) => it.targets ?? [])
  .map(({ expr }) => expr.replaceAll(/\$__(rate_interval|interval|range)/g, '5m'));
const rules = expressions.map((expr, at) => ({ record: `headgate:panel_${at}`, expr }));
const file = join(folder, 'panels.json');
writeFileSync(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }));
must(promtool, ['check', 'rules', file]);

// As a literal, so that names unknown to the type are reported. Enums of the type are read as the texts that they stand for.
const typed = join(folder, 'dashboard.ts');
writeFileSync(
  typed,
  `import type { Dashboard } from '@grafana/schema';
type Plain<T> = T extends string ? \`\${T}\` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
export const dashboard: Plain<Dashboard> = ${text};
`,
);
const options = [
  '--ignoreConfig',
  '--noEmit',
  '--strict',
  '--skipLibCheck',
  '--module',
  'nodenext',
  '--types',
  '',
];
must(resolve('node_modules/.bin/tsc'), [...options, typed]);
console.log(
  `Grafana's types take the dashboard, with ${panels.length} panels and ${expressions.length} expressions.`,
);
