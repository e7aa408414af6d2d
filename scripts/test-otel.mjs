// Headgate sends traces and metrics to the receiver of the OpenTelemetry collector: `npm run test:otel`. Go builds it into a temporary folder.
// docs/operating/tracing.md records the findings.
import { join } from 'node:path';
import { must, temporary, tests } from './commands.mjs';

const receiver = join(temporary('otel'), 'receiver');
must('go', ['build', '-o', receiver, '.'], { cwd: 'test/otel' });
tests('dist/test/otel/otel.js', { HEADGATE_OTEL_RECEIVER: receiver });
