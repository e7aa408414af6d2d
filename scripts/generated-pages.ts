/** Pages generated from tables in the source, so that they cannot differ from it; and files copied into the chart. */
import { readFileSync } from 'node:fs';
import { refusals } from '../src/errors/refusals.ts';
import { senderPages } from '../src/senders/sender-page.ts';
import { settingsTable } from '../src/config/settings.ts';
import { validateReference } from '../src/validate/reference.ts';

const cell = (text: string) => text.replaceAll('|', '\\|');

function errorsPage(): string {
  const rows = Object.entries(refusals)
    .toSorted(([, a], [, b]) => a.status - b.status)
    .map(
      ([code, r]) =>
        `| \`${code}\` | ${r.status} | \`${r.sqlstate}\` | ${cell(r.message)} | ${cell(r.hint)} |`,
    );
  return `# Refusals

Every way Headgate refuses a request. The body is \`{"error": "<one sentence>", "code": "<the code below>"}\`; compare
the code, never the sentence. A \`503\` carries \`Retry-After\`: nothing is wrong with the request, send it again. After any
other refusal no row was stored; after \`commit_unknown\` and \`deadline\` it may have been stored. SQL that is refused because of
the size of its result (\`result_too_large\`, \`results_full\`, \`answer_too_large\`) may have taken effect.

| code | HTTP | SQLSTATE | sentence | what to do |
| --- | --- | --- | --- | --- |
${rows.join('\n')}

This page is printed from \`src/errors/refusals.ts\`.
`;
}

function settingsPage(): string {
  const rows = Object.values(settingsTable).map((row) => {
    const flag = row.flag === null ? '—' : `\`--${row.flag}\``;
    const fallback = row.default === null || String(row.default) === '' ? '—' : `\`${String(row.default)}\``;
    const alias = row.alias === null ? '' : `, or \`${row.alias}\``;
    return `| \`${row.env}\`${alias} | ${flag} | ${fallback} | ${cell(row.help)} |`;
  });
  return `# Settings

A flag overrides its environment variable, which overrides the default; an empty variable counts as unset. Headgate refuses to start
if a variable begins with \`HEADGATE_\` or \`EVENTS_API_\` but is not in this table (except \`EVENTS_API_<DB>_DSN\`), or if settings
contradict each other: a key and a key file, TLS options of a door without TLS, a flag given twice. \`headgate config\` prints every
value and its source, with secrets masked, and then everything that \`headgate start\` would refuse, in which case its exit status is 1:
it checks files, keys, connection strings and the data directory, and changes nothing. It does not check ports: \`start\` does, before
it creates anything.

| variable | flag | default | meaning |
| --- | --- | --- | --- |
${rows.join('\n')}
| \`EVENTS_API_<DB>_DSN\` | — | — | a database of the events gateway: \`?database=<db>\` in lower case; without the parameter, the first one by name |

This page is printed from \`src/config/settings.ts\`.
`;
}

/** The chart can only read files in its own folder, so it has copies of these. */
const chartFiles = {
  'deploy/helm/headgate/files/alerts.yaml': 'deploy/prometheus/alerts.yaml',
  'deploy/helm/headgate/files/dashboard.json': 'deploy/grafana/headgate.json',
};
const readSource = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

/** Path from the repository's root → text. */
export function generatedPages(): ReadonlyMap<string, string> {
  return new Map([
    ['docs/errors.md', errorsPage()],
    ['docs/settings.md', settingsPage()],
    ['docs/sql/validate.md', validateReference()],
    ...senderPages(),
    ...Object.entries(chartFiles).map(([copy, source]) => [copy, readSource(source)] as const),
  ]);
}
