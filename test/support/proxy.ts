/**
 * nginx and Caddy in front of Headgate, run from the actual files in deploy/: only what those files leave to the reader (ports,
 * names, certificates) is replaced, and each replacement must find its place. Also HAProxy, for which deploy/ has no file.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:https';
import type { RequestOptions } from 'node:https';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:tls';
import type { TLSSocket } from 'node:tls';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { onEnd } from './cleanup.ts';
import { temporaryFolder } from './headgate.ts';
import { root } from './package.ts';
import { run } from './run.ts';

export interface Certificate {
  readonly keyFile: string;
  readonly certificateFile: string;
  readonly pem: string;
}

export const serverName = 'hooks.example.com';

async function certificate(folder: string): Promise<Certificate> {
  const [keyFile, certificateFile] = [join(folder, 'key.pem'), join(folder, 'certificate.pem')];
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const names = ['-subj', `/CN=${serverName}`, '-addext', `subjectAltName=DNS:${serverName}`];
  const files = ['-keyout', keyFile, '-out', certificateFile];
  const made = await run('openssl', ['req', '-x509', ...kind, ...names, ...files]);
  assert.equal(made.code, 0, made.stderr);
  return { keyFile, certificateFile, pem: await readFile(certificateFile, 'utf8') };
}

/** A port that is free at this moment: neither proxy can choose one and report it. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export function replaced(text: string, pairs: readonly (readonly [from: string, to: string])[]): string {
  return pairs.reduce((done, [from, to]) => {
    assert(done.includes(from), `the configuration has the line with: ${from}`);
    return done.replaceAll(from, to);
  }, text);
}

export interface Answer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
}

export class Proxy {
  readonly port: number;
  readonly folder: string;
  readonly #pem: string;

  constructor(port: number, folder: string, pem: string) {
    this.port = port;
    this.folder = folder;
    this.#pem = pem;
  }

  get tls(): { ca: string; servername: string } {
    return { ca: this.#pem, servername: serverName };
  }

  /** nginx's log; Caddy logs to its standard error. */
  log(): Promise<string> {
    return readFile(join(this.folder, 'error.log'), 'utf8').catch(() => '');
  }

  /** The lines of nginx's access log with a status other than 200. */
  async refusals(): Promise<string> {
    const lines = (await readFile(join(this.folder, 'access.log'), 'utf8')).split('\n');
    return lines.filter((line) => !line.includes('HTTP/1.1" 200 ')).join('\n');
  }

  /** The path is sent unchanged. */
  post(path: string, body: string | Buffer, options: RequestOptions = {}): Promise<Answer> {
    const to = { ...this.tls, host: '127.0.0.1', port: this.port, path, method: 'POST', ...options };
    const headers = {
      host: serverName,
      'content-length': Buffer.byteLength(body),
      ...(options.headers as Record<string, string> | undefined),
    };
    return new Promise((resolve, reject) => {
      const sent = request({ ...to, headers, agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
        response.on('error', reject);
        response.on('end', () =>
          resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
        );
      });
      sent.on('error', reject);
      // As bytes: with a text body, Node would write the headers in the body's encoding.
      sent.end(Buffer.from(body));
    });
  }

  /** A connection that sends what it is given, byte for byte. */
  async open(t: TestContext): Promise<TLSSocket> {
    const socket = connect({ ...this.tls, host: '127.0.0.1', port: this.port });
    onEnd(t, 'connection', () => void socket.destroy());
    await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('error', reject));
    return socket;
  }
}

/** nginx's main configuration around the file; everything nginx writes stays in the folder. */
const nginxMain = (folder: string) => `
${process.getuid?.() === 0 ? 'user root;' : ''}
daemon off;
worker_processes 2;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log info;
events { worker_connections 1024; }
http {
  access_log ${folder}/access.log;
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  include ${folder}/headgate.conf;
}
`;

export async function startNginx(
  t: TestContext,
  program: string,
  upstreams: readonly number[],
): Promise<Proxy> {
  const folder = await temporaryFolder(t);
  const { keyFile, certificateFile, pem } = await certificate(folder);
  const port = await freePort();
  const [first = 0, second] = upstreams;
  const conf = replaced(await readFile(join(root, 'deploy/nginx/headgate.conf'), 'utf8'), [
    ['listen 443 ssl;', `listen 127.0.0.1:${port} ssl;`],
    ['listen [::]:443 ssl;', ''],
    ['/etc/ssl/hooks.example.com.pem', certificateFile],
    ['/etc/ssl/hooks.example.com.key', keyFile],
    ['server 127.0.0.1:4560 ', `server 127.0.0.1:${first} `],
    ...(second === undefined ? [] : [['# server 127.0.0.1:4570 ', `server 127.0.0.1:${second} `] as const]),
  ]);
  await writeFile(join(folder, 'headgate.conf'), conf);
  await writeFile(join(folder, 'nginx.conf'), nginxMain(folder));
  const args = ['-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')];
  const checked = await run(program, ['-t', ...args]);
  assert.equal(checked.code, 0, checked.stderr);
  assert.doesNotMatch(checked.stderr, /\[(warn|emerg|error)\]/);
  return started(t, program, args, new Proxy(port, folder, pem));
}

export async function startCaddy(
  t: TestContext,
  program: string,
  [upstream = 0]: readonly number[],
): Promise<Proxy> {
  const folder = await temporaryFolder(t);
  const { keyFile, certificateFile, pem } = await certificate(folder);
  const port = await freePort();
  // In production, Caddy itself obtains a certificate and uses the https port.
  const global = '{\n\tadmin off\n\tauto_https off\n}\n';
  const site = '{$HEADGATE_SITE:hooks.example.com} {';
  const conf = replaced(await readFile(join(root, 'deploy/caddy/Caddyfile'), 'utf8'), [
    [site, `${global}${site}\n\tbind 127.0.0.1\n\ttls ${certificateFile} ${keyFile}`],
  ]);
  const file = join(folder, 'Caddyfile');
  await writeFile(file, conf);
  await mkdir(join(folder, 'home'));
  const args = ['run', '--adapter', 'caddyfile', '--config', file];
  const home = join(folder, 'home');
  return started(t, program, args, new Proxy(port, folder, pem), {
    HOME: home,
    XDG_DATA_HOME: home,
    XDG_CONFIG_HOME: home,
    HEADGATE_SITE: `https://${serverName}:${port}`,
    HEADGATE_UPSTREAM: `127.0.0.1:${upstream}`,
  });
}

export async function startHaproxy(
  t: TestContext,
  program: string,
  [upstream = 0]: readonly number[],
): Promise<Proxy> {
  const folder = await temporaryFolder(t);
  const { keyFile, pem } = await certificate(folder);
  const port = await freePort();
  const both = join(folder, 'both.pem');
  await writeFile(both, `${pem}${await readFile(keyFile, 'utf8')}`);
  const file = join(folder, 'haproxy.cfg');
  await writeFile(
    file,
    `defaults
  mode http
  timeout connect 5s
  timeout client 10s
  timeout server 10s
  http-reuse always
frontend hooks
  bind 127.0.0.1:${port} ssl crt ${both}
  default_backend headgate
backend headgate
  server one 127.0.0.1:${upstream}
`,
  );
  return started(t, program, ['-db', '-f', file], new Proxy(port, folder, pem));
}

/** Resolves once it accepts connections; neither proxy has a stable message for that. */
async function started(
  t: TestContext,
  program: string,
  args: readonly string[],
  proxy: Proxy,
  env: Readonly<Record<string, string>> = {},
): Promise<Proxy> {
  const child = spawn(program, args, {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'], ...env },
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said += text));
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  onEnd(t, program, async () => {
    child.kill('SIGTERM');
    await ended;
  });
  for (;;) {
    assert.equal(child.exitCode, null, said);
    if (
      await proxy.post('/', '').then(
        (answer) => answer.status === 404,
        () => false,
      )
    )
      return proxy;
  }
}
