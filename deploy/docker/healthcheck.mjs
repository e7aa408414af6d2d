// The image's HEALTHCHECK: exit status 0 if the admin port of this container's Headgate answers. Needs no curl.
import { get } from 'node:http';

const host = process.env.HEADGATE_ADMIN_HOST || '127.0.0.1';
const port = process.env.HEADGATE_ADMIN_PORT || '4561';
const everywhere = { '0.0.0.0': '127.0.0.1', '::': '::1' };
const asked = get({ host: everywhere[host] ?? host, port, path: '/healthz', timeout: 2_000 }, (response) => {
  response.resume();
  process.exitCode = response.statusCode === 200 ? 0 : 1;
});
asked.on('timeout', () => asked.destroy(new Error('no answer')));
asked.on('error', () => (process.exitCode = 1));
