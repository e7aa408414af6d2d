/**
 * The Headgates that run on this machine as this user: each writes a file with its data directory while its doors are open, so that
 * a command finds it from any folder; and where such a command finds its console. Takes data directories, returns those whose process lives and whose `ports.json` names that
 * process. Touches `~/.local/state/headgate/running` alone, which only this user may read; a folder that cannot be written is
 * passed over, because a command can still be given `--data-dir`.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { jsonObject } from '../kit/json-values.ts';
import type { Closer } from '../kit/closer.ts';
import { PlainError } from '../kit/plain-error.ts';

export interface Running {
  readonly pid: number;
  /** An absolute path. */
  readonly dataDir: string;
}

const folder = (): string => join(homedir(), '.local', 'state', 'headgate', 'running');

/** Until `closer` closes. Never throws. */
export async function announce(dataDir: string, closer: Closer): Promise<void> {
  const path = join(folder(), `${process.pid}.json`);
  try {
    await mkdir(folder(), { recursive: true, mode: 0o700 });
    await writeFile(path, `${JSON.stringify({ pid: process.pid, dataDir: resolve(dataDir) })}\n`, {
      mode: 0o600,
    });
    closer.add('the list of running Headgates', () => rm(path, { force: true }));
  } catch {
    // A home that does not exist, or that a service may not write to.
  }
}

/** Ordered by data directory. Files of processes that are gone are removed. */
export async function runningHere(): Promise<readonly Running[]> {
  const names = await readdir(folder()).catch(() => []);
  const found = await Promise.all(
    names.map(async (name) => {
      const path = join(folder(), name);
      const { dataDir } = jsonObject(await readFile(path, 'utf8').catch(() => '{}')) ?? {};
      const running = typeof dataDir === 'string' ? await runningAt(dataDir) : null;
      if (running === null || `${running.pid}.json` !== name) {
        await rm(path, { force: true }).catch(() => undefined);
        return null;
      }
      return running;
    }),
  );
  return found.filter((it) => it !== null).toSorted((a, b) => (a.dataDir < b.dataDir ? -1 : 1));
}

/** The Headgate whose doors are in `ports.json` of that directory; null: its process is gone, or there is none. */
export async function runningAt(dataDir: string): Promise<Running | null> {
  const { pid } = jsonObject(await readFile(join(dataDir, 'ports.json'), 'utf8').catch(() => '{}')) ?? {};
  if (typeof pid !== 'number' || !isAlive(pid)) return null;
  return { pid, dataDir: resolve(dataDir) };
}

/** By port, the Headgates of this user that have their doors there. */
export async function holdersOfPorts(): Promise<ReadonlyMap<number, Running>> {
  const holders = new Map<number, Running>();
  for (const running of await runningHere()) {
    const doors = jsonObject(await readFile(join(running.dataDir, 'ports.json'), 'utf8').catch(() => '{}'));
    for (const door of Object.values(doors ?? {})) {
      const { port } = (door ?? {}) as { readonly port?: unknown };
      if (typeof port === 'number') holders.set(port, running);
    }
  }
  return holders;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** The only one, for a command that was given no data directory; null: none runs. Throws PlainError if there are several. */
export async function onlyRunning(): Promise<Running | null> {
  const [one, ...others] = await runningHere();
  if (one === undefined) return null;
  if (others.length === 0) return one;
  const shown = [one, ...others].map(({ dataDir, pid }) => `${dataDir} (pid ${pid})`).join(', ');
  throw new PlainError(`several Headgates run here: ${shown}: choose one with --data-dir`);
}

/** The file whose content authenticates the commands of this machine; it exists while Headgate runs. */
export const ownerKeyFile = 'console.key';

/** The console's URL for a browser on this machine. */
export function consoleUrl({ host, port }: { readonly host: string; readonly port: number }): string {
  const name = host.includes(':') && host !== '::' ? `[${host}]` : nameOfHost(host);
  return `http://${name}:${port}/console/`;
}

/** The name by which this machine reaches a door that listens there. */
export const nameOfHost = (host: string): string =>
  host === '0.0.0.0' || host === '::' ? 'localhost' : host;
