// Senders' packages for Python, one for Node that has too many dependencies, and Twitch's command line tool if HEADGATE_TWITCH_CLI is its
// path, against a running Headgate: `npm run test:verifiers`. The packages are installed in a temporary folder, which is removed
// afterwards. docs/senders/verifiers.md records the findings.
import { join } from 'node:path';
import { must, pip, temporary, tests } from './commands.mjs';

const python = [
  'cryptography==50.0.2',
  'line-bot-sdk==3.27.0',
  'slack_sdk==3.47.0',
  'standardwebhooks==1.1.0',
  'stripe==16.1.0',
  'svix==2.9.1',
  'twilio==9.13.0',
  'wechatpy==1.8.18',
];
const node = ['event-notification-nodejs-sdk@1.0.3'];

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
