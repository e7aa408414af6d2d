// Certificates by ACME against the real Pebble, which comes from the Go module proxy: `npm run test:acme`. With Pebble and its name server in
// a folder already, HEADGATE_PEBBLE names it. docs/deploy/https.md says what was found.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const version = 'v2.10.1';
const given = process.env['HEADGATE_PEBBLE'];
const folder = given ?? mkdtempSync(join(tmpdir(), 'headgate-pebble-'));
if (given === undefined) process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const run = (command, args, env) => {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', env: { ...process.env, ...env } });
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(1);
};
if (given === undefined)
  for (const program of ['pebble', 'pebble-challtestsrv'])
    run('go', ['install', `github.com/letsencrypt/pebble/v2/cmd/${program}@${version}`], { GOBIN: folder });
run(process.execPath, ['--test', 'dist/test/acme/pebble.js'], { HEADGATE_PEBBLE: folder });
