// Certificates by ACME against the real Pebble, which comes from the Go module proxy: `npm run test:acme`. HEADGATE_PEBBLE can name a folder
// that already holds Pebble and its name server. docs/deploy/https.md records the findings.
import { must, temporary, tests } from './commands.mjs';

const version = 'v2.10.1';
const given = process.env['HEADGATE_PEBBLE'];
const folder = given ?? temporary('pebble');
const env = { ...process.env, GOBIN: folder };
if (given === undefined)
  for (const program of ['pebble', 'pebble-challtestsrv'])
    must('go', ['install', `github.com/letsencrypt/pebble/v2/cmd/${program}@${version}`], { env });
tests('dist/test/acme/pebble.js', { HEADGATE_PEBBLE: folder });
