// The events gateway's OpenAPI document, tried by Schemathesis against a running Headgate: `npm run test:openapi`. Schemathesis is installed
// in a temporary folder, which is gone afterwards.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'headgate-openapi-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const run = (command, args, env = {}) => {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', env: { ...process.env, ...env } });
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(1);
};
run('python3', ['-m', 'venv', folder]);
run(join(folder, 'bin/pip'), ['install', '--quiet', '--no-input', 'schemathesis==4.32.5']);
run(process.execPath, ['--test', 'dist/test/openapi/schemathesis.js'], {
  HEADGATE_SCHEMATHESIS: join(folder, 'bin/schemathesis'),
});
