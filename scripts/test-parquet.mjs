// Parquet files of `headgate export`, read by PyArrow and DuckDB: `npm run test:parquet`. Both are installed in a temporary folder, which is
// gone afterwards.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'headgate-parquet-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const run = (command, args, env = {}) => {
  const { status } = spawnSync(command, args, { stdio: 'inherit', env: { ...process.env, ...env } });
  if (status !== 0) process.exit(1);
};
run('python3', ['-m', 'venv', folder]);
run(join(folder, 'bin/pip'), [
  'install',
  '--quiet',
  '--no-input',
  'pyarrow==26.0.1',
  'duckdb==2.0.0',
  'pytz',
]);
run(process.execPath, ['--test', 'dist/test/parquet/readers.js'], {
  HEADGATE_PARQUET_PYTHON: join(folder, 'bin/python'),
});
