// Debezium's engine reads webhook tables through the SQL port: `npm run test:debezium`. Maven fetches it into the user's local
// repository, javac compiles its reader into a temporary folder. docs/passing-on.md records the findings.
import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { must, temporary, tests } from './commands.mjs';

const folder = temporary('debezium');
const list = join(folder, 'classes.txt');
must('mvn', [
  '-q',
  '-B',
  '-f',
  'test/debezium/pom.xml',
  'dependency:build-classpath',
  `-Dmdep.outputFile=${list}`,
]);
const classes = readFileSync(list, 'utf8').trim();
must('javac', ['-cp', classes, '-d', folder, 'test/debezium/Reader.java']);
tests('dist/test/debezium/debezium.js', { HEADGATE_DEBEZIUM: [folder, classes].join(delimiter) });
