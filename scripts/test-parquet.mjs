// PyArrow and DuckDB read Parquet files of `headgate export`: `npm run test:parquet`. Both are installed in a temporary folder, which is
// removed afterwards.
import { join } from 'node:path';
import { pip, temporary, tests } from './commands.mjs';

const folder = temporary('parquet');
pip(folder, 'pyarrow==26.0.1', 'duckdb==2.0.0', 'pytz');
tests('dist/test/parquet/readers.js', { HEADGATE_PARQUET_PYTHON: join(folder, 'bin/python') });
