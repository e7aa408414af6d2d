/**
 * A command in a terminal, as for a person: a pseudo-terminal of `script` (Debian's bsdutils), with input and output.
 */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import type { TestContext } from 'node:test';
import { stripVTControlCharacters } from 'node:util';
import { onEnd } from './cleanup.ts';
import { requireTool } from './tools.ts';
import { until } from './until.ts';

/** What Ctrl-C and Ctrl-D send. */
export const keys = { interrupt: '\x03', end: '\x04' } as const;

/** On a busy machine the program takes seconds to start. */
const patienceMs = 30_000;

export class Terminal {
  /** The exit status of the command, once it ended. */
  readonly ended: Promise<number | null>;
  readonly #child: ChildProcess;
  #raw = '';
  #isOver = false;

  constructor(child: ChildProcess) {
    this.#child = child;
    this.ended = new Promise((resolve) => {
      child.once('close', (code) => {
        this.#isOver = true;
        resolve(code);
      });
    });
    child.stdout?.setEncoding('utf8').on('data', (text: string) => (this.#raw += text));
    // Input after a command's end is discarded.
    child.stdin?.on('error', () => {});
  }

  /** With colours and cursor movements. */
  get raw(): string {
    return this.#raw;
  }

  /** Without colours and cursor movements. */
  get screen(): string {
    return stripVTControlCharacters(this.#raw).replaceAll('\r', '');
  }

  type(text: string): void {
    this.#child.stdin?.write(text);
  }

  /** Resolves with the match once the screen has it; rejects, with the screen, if it does not appear. */
  async shows(wanted: RegExp): Promise<RegExpExecArray> {
    const deadline = performance.now() + patienceMs;
    await until(() => wanted.test(this.screen) || this.#isOver || performance.now() > deadline);
    const match = wanted.exec(this.screen);
    if (match === null) throw new Error(`${wanted} never came; the screen:\n${this.screen}`);
    return match;
  }
}

/** `command`: shell text. null: `t` was skipped. */
export function openTerminal(
  t: TestContext,
  command: string,
  options: {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
    readonly columns?: number;
  },
): Terminal | null {
  const script = requireTool(t, 'script');
  if (script === null) return null;
  const child = spawn(
    script,
    ['-qefc', `stty rows 50 cols ${options.columns ?? 160}; ${command}`, '/dev/null'],
    {
      cwd: options.cwd,
      env: { PATH: process.env['PATH'], SHELL: '/bin/sh', TERM: 'xterm', ...options.env },
      stdio: 'pipe',
    },
  );
  const terminal = new Terminal(child);
  onEnd(t, command, async () => {
    child.kill('SIGTERM');
    await terminal.ended;
  });
  return terminal;
}
