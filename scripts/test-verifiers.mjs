// The senders' packages of `src/senders/packages.ts` that are fetched by hand, and Twitch's command line tool if HEADGATE_TWITCH_CLI is its
// path, against a running Headgate: `npm run test:verifiers`. The packages are installed in a temporary folder, which is removed
// afterwards. docs/senders/verifiers.md records the findings.
import { join } from 'node:path';
import { must, pip, temporary, tests } from './commands.mjs';

const { packages } = await import('../dist/src/senders/packages.js');
const wanted = (registry, between) =>
  Object.entries(packages)
    .filter(([, it]) => it.registry === registry && it.when === 'by hand')
    .map(([key, { name = key, version }]) => `${name}${between}${version}`);
const python = ['cryptography==50.0.2', ...wanted('pip', '==')];
const node = wanted('npm', '@');

const folder = temporary('verifiers');
must('npm', [
  'install',
  '--no-save',
  '--no-audit',
  '--no-fund',
  '--ignore-scripts',
  '--prefix',
  folder,
  ...node,
]);
pip(join(folder, 'venv'), ...python);
tests('dist/test/verifiers/senders.js', { HEADGATE_VERIFIERS: folder });
if (process.env['HEADGATE_TWITCH_CLI'] === undefined)
  console.error('Twitch’s command line tool was not tried: HEADGATE_TWITCH_CLI is not set.');
else tests('dist/test/verifiers/twitch.js');

const { senders } = await import('../dist/src/senders/senders.js');
const { openFacts, witnessTable } = await import('../dist/src/senders/verifiers-page.js');
const { playedTable } = await import('../dist/test/support/players.js');
console.log(`\n${playedTable()}\n${witnessTable(senders)}`);
const open = openFacts(senders);
if (open.length === 0)
  console.log('Of the 40 most used, each fact has a witness, or somebody has looked for one.');
else {
  console.error(`Of the 40 most used, nobody outside has said:\n${open.map((it) => `  ${it}\n`).join('')}`);
  process.exitCode = 1;
}
