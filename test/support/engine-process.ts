/** For the crash tests: the process of engine-child.ts, and functions that wait for its output. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

/** One line of the child; see engine-child.ts. */
export interface Line {
  readonly kind?: string;
  readonly acked?: number;
  readonly opened?: number;
  readonly failed?: string;
  readonly message?: string;
}

/** The child process of test/support/engine-child.ts and the lines it has printed. */
export class EngineChild {
  readonly process: ChildProcess;
  acked = 0;
  readonly #lines: Line[] = [];
  #wake: () => void = () => undefined;

  constructor(options: object) {
    const script = fileURLToPath(new URL('./engine-child.js', import.meta.url));
    this.process = spawn(process.execPath, [script, JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    createInterface({ input: this.process.stdout! }).on('line', (text) => {
      const line = JSON.parse(text) as Line;
      if (line.acked !== undefined) this.acked = line.acked;
      this.#lines.push(line);
      this.#wake();
    });
    this.process.on('exit', () => this.#wake());
  }

  async until(matches: (line: Line) => boolean): Promise<Line> {
    for (;;) {
      const found = this.#lines.find(matches);
      if (found !== undefined) return found;
      if (this.process.exitCode !== null) throw new Error(`ended: ${JSON.stringify(this.#lines.slice(-5))}`);
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exited = once(this.process, 'exit');
    this.process.kill(signal);
    await exited;
  }
}

/** The pid of the server on this data directory. */
export async function postmasterPid(dataDir: string): Promise<number> {
  return Number((await readFile(join(dataDir, 'pg', 'postmaster.pid'), 'utf8')).split('\n')[0]);
}
