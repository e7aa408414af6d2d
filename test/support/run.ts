/** Runs a command line tool to its end, as a person would. */
import { spawn } from 'node:child_process';
import type { SpawnOptions } from 'node:child_process';
import { findTool } from './tools.ts';

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export function run(
  command: string,
  args: readonly string[],
  options: SpawnOptions & { input?: string } = {},
): Promise<Ran> {
  return new Promise((resolve, reject) => {
    // The program may be installed outside PATH.
    const child = spawn(findTool(command) ?? command, args, { ...options, stdio: 'pipe' });
    let stdout = '';
    let stderr = '';
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
    // A tool may end without reading its input.
    child.stdin?.on('error', () => {});
    child.stdin?.end(options.input ?? '');
  });
}
