// Debezium's engine reads webhook tables through the SQL port: `npm run test:debezium`. Maven fetches it into the local repository of the
// user, javac compiles its reader into a temporary folder. docs/passing-on.md says what was found.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

const folder = mkdtempSync(join(tmpdir(), 'headgate-debezium-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
const run = (command, args, env = {}) => {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', env: { ...process.env, ...env } });
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(1);
};
const list = join(folder, 'classes.txt');
run('mvn', [
  '-q',
  '-B',
  '-f',
  'test/debezium/pom.xml',
  'dependency:build-classpath',
  `-Dmdep.outputFile=${list}`,
]);
const classes = readFileSync(list, 'utf8').trim();
run('javac', ['-cp', classes, '-d', folder, 'test/debezium/Reader.java']);
run(process.execPath, ['--test', 'dist/test/debezium/debezium.js'], {
  HEADGATE_DEBEZIUM: [folder, classes].join(delimiter),
});
