/** Flink's mini-cluster as a process: its job goes on from the newest checkpoint whenever it is started again, as its users run it. */
import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Flink 1.20 on Java 17 opens these by reflection. */
const opened = ['util', 'lang', 'time', 'net', 'nio', 'lang.reflect', 'text', 'util.concurrent']
  .map((name) => `java.base/java.${name}`)
  .concat('java.base/sun.nio.ch')
  .map((name) => `--add-opens=${name}=ALL-UNNAMED`);

/** Where a source goes on in the server's log, and what it leaves out. */
const locator = 'io.debezium.connector.postgresql.connection.WalPositionLocator';

export class FlinkJob {
  stderr = '';
  readonly #classes: string;
  readonly #statements: string;
  readonly #checkpoints: string;
  #child: ChildProcess | null = null;

  /** `statements`: a file; `checkpoints`: a folder. */
  constructor(classes: string, statements: string, checkpoints: string) {
    this.#classes = classes;
    this.#statements = statements;
    this.#checkpoints = checkpoints;
  }

  start(): void {
    const newest = this.newest;
    const settings = [
      '-Xmx1500m',
      '-XX:+UseSerialGC',
      '-XX:TieredStopAtLevel=1',
      '-Dorg.slf4j.simpleLogger.defaultLogLevel=warn',
      `-Dorg.slf4j.simpleLogger.log.${locator}=trace`,
    ];
    const job = ['-cp', this.#classes, 'Job', this.#statements, this.#checkpoints];
    const child = spawn('java', [...settings, ...opened, ...job, ...(newest === null ? [] : [newest])], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    child.stderr
      .setEncoding('utf8')
      .on('data', (text: string) => (this.stderr = `${this.stderr}${text}`.slice(-100_000)));
    this.#child = child;
  }

  /** What the sources have said about where they went on. */
  get resumed(): string {
    return this.stderr
      .split('\n')
      .filter((line) => line.includes('WalPositionLocator'))
      .join('\n');
  }

  /** The newest complete checkpoint; null: none is. */
  get newest(): string | null {
    const folders = existsSync(this.#checkpoints)
      ? readdirSync(this.#checkpoints, { recursive: true, encoding: 'utf8' })
      : [];
    const numberOf = (name: string) => Number(/chk-(\d+)\/_metadata$/.exec(name)?.[1] ?? -1);
    const complete = folders.filter((name) => numberOf(name) >= 0);
    // Each job has a folder; a later one counts on.
    const [last] = complete.toSorted((a, b) => numberOf(b) - numberOf(a));
    return last === undefined ? null : join(this.#checkpoints, last, '..');
  }

  async kill(): Promise<void> {
    const child = this.#child;
    if (child === null || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'close');
    child.kill('SIGKILL');
    await ended;
  }
}
