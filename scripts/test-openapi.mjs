// Schemathesis tests the events gateway's OpenAPI document against a running Headgate: `npm run test:openapi`. Schemathesis is installed in
// a temporary folder, which is removed afterwards.
import { join } from 'node:path';
import { pip, temporary, tests } from './commands.mjs';

const folder = temporary('openapi');
pip(folder, 'schemathesis==4.32.5');
tests('dist/test/openapi/schemathesis.js', { HEADGATE_SCHEMATHESIS: join(folder, 'bin/schemathesis') });
