/** Debezium's engine as a process that is started again whenever it ends, as its users run it. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

export interface Event {
  readonly op: 'r' | 'c' | 'u' | 'd';
  readonly before: Readonly<Record<string, unknown>> | null;
  readonly after: Readonly<Record<string, unknown>> | null;
  readonly source: {
    readonly schema: string;
    readonly table: string;
    readonly lsn: number;
    readonly txId: number;
  };
}

export class DebeziumReader {
  /** In the order in which they were read, what was read again among them. */
  readonly events: Event[] = [];
  /** Where each of its processes has begun. */
  readonly begun: number[] = [];
  stderr = '';
  #child: ChildProcess;
  #over = false;
  readonly #start: () => ChildProcess;

  constructor(classes: string, properties: string) {
    this.#start = () => {
      const settings = [
        '-Xmx256m',
        '-XX:TieredStopAtLevel=1',
        '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
      ];
      const child = spawn('java', [...settings, '-cp', classes, 'Reader', properties], {
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      this.begun.push(this.events.length);
      child.stderr.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
      // The last line of one that was killed may be a part of one, and was not marked as read.
      createInterface({ input: child.stdout }).on('line', (line) => {
        if (line.endsWith('}')) this.#read(line);
      });
      child.once('close', () => {
        if (!this.#over) this.#child = this.#start();
      });
      return child;
    };
    this.#child = this.#start();
  }

  async kill(): Promise<void> {
    const ended = once(this.#child, 'close');
    this.#child.kill('SIGKILL');
    await ended;
  }

  async close(): Promise<void> {
    this.#over = true;
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.kill();
  }

  #read(line: string): void {
    let event: Event;
    try {
      event = JSON.parse(line) as Event;
    } catch {
      return;
    }
    this.events.push(event);
  }
}
