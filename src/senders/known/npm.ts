/** npm registry hooks. */
import { code } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const npm: Sender = hmacBody({
  id: 'npm',
  name: 'npm registry hooks',
  prefix: 'sha256=',
  headers: ['x-npm-signature'],
  secret: { what: 'the hook’s secret', where: 'you choose it' },
  evidence: { signature: code('npm/npm-hook-receiver 9482172, index.js') },
  steps: ['`npm hook add <package> <the URL of the table> <secret>`.'],
  example: ({ id, nowMs }) => ({
    event: 'package:publish',
    name: 'shop',
    type: 'package',
    version: '1.0.0',
    hookOwner: { username: 'zoe' },
    time: nowMs,
    change: { version: '1.0.0' },
    payload: { _id: id },
  }),
});
