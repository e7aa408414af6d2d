/** `headgate deliver` as a process, ended with its test, and the secret with which it signs. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from './cleanup.ts';
import { temporaryFolder } from './headgate.ts';
import type { Headgate } from './headgate.ts';

export const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));
export const secret = `whsec_${Buffer.from('a secret of thirty-two bytes ...').toString('base64')}`;

export async function secretFile(t: TestContext): Promise<string> {
  const file = join(await temporaryFolder(t), 'secret');
  await writeFile(file, `${secret}\n`);
  return file;
}

export interface Running {
  readonly child: ChildProcess;
  readonly said: () => string;
}

export function deliver(
  t: TestContext,
  headgate: Headgate,
  file: string,
  to: string,
  ...more: string[]
): Running {
  const dsn = `postgresql://root@127.0.0.1:${headgate.ports.sql.port}/dev`;
  const args = [cli, 'deliver', 'orders', '--to', to, '--secret-file', file, '--dsn', dsn, ...more];
  const { host } = new URL(to);
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, HEADGATE_DELIVER_HOSTS: host },
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => (said += text));
  const ended = once(child, 'exit');
  onEnd(t, 'deliver', async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { child, said: () => said };
}
