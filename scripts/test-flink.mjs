// Apache Flink reads webhook tables through the SQL port and writes what it computes back: `npm run test:flink`. Maven fetches it into the user's local
// repository, javac compiles its job into a temporary folder. docs/passing-on.md records the findings.
import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { must, temporary, tests } from './commands.mjs';

const folder = temporary('flink');
const list = join(folder, 'classes.txt');
must('mvn', [
  '-q',
  '-B',
  '-f',
  'test/flink/pom.xml',
  'dependency:build-classpath',
  `-Dmdep.outputFile=${list}`,
]);
const classes = readFileSync(list, 'utf8').trim();
must('javac', ['-cp', classes, '-d', folder, 'test/flink/Job.java']);
tests('dist/test/flink/flink.js', { HEADGATE_FLINK: [folder, classes].join(delimiter) });
