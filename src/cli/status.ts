/**
 * `headgate status`: the Headgates that run on this machine as this user, or the one on a data directory: where their doors are, and
 * whether each is ready. Takes data directories; returns the exit status: 0 if all are ready, 1 if one is not, 3 if none runs.
 */
import { jsonLine, painted } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { reachable, urlHost } from '../kit/address.ts';
import { limits } from '../config/limits.ts';
import { runningAt, runningHere } from '../host/running.ts';
import type { Running } from '../host/running.ts';
import { portsAt } from './find-headgate.ts';
import type { DoorAt } from './find-headgate.ts';

const noneRuns = 3;

/** What `/readyz` says; `unreachable` if it gives no answer. */
interface ReadinessAnswer {
  readonly status: string;
  readonly reason: string | null;
}

/** `dataDir` null: all of this user. */
export async function statusCommand(dataDir: string | null, json: boolean, io: CommandIo): Promise<number> {
  const found =
    dataDir === null ? await runningHere() : [await runningAt(dataDir)].filter((it) => it !== null);
  if (found.length === 0) {
    io.note(
      dataDir === null
        ? 'no Headgate of this user runs on this machine\n'
        : `no Headgate runs on ${dataDir}\n`,
    );
    return noneRuns;
  }
  const all = await Promise.all(found.map(describe));
  for (const { running, doors, ready } of all) {
    if (json) {
      const addresses = Object.fromEntries(doors.map(({ name, ...at }) => [name, addressOf(at)]));
      io.print(jsonLine({ data_dir: running.dataDir, pid: running.pid, ...ready, doors: addresses }));
    } else {
      io.print(
        `${running.dataDir}  (pid ${running.pid})  ${painted(io, ready.status === 'ready' ? 'good' : 'bad', ready.status)}${ready.reason === null ? '' : `: ${ready.reason}`}\n`,
      );
      for (const { name, ...at } of doors) io.print(`  ${name.padEnd(8)} ${shownAddress(at)}\n`);
    }
  }
  return all.every(({ ready }) => ready.status === 'ready') ? 0 : 1;
}

async function describe(running: Running): Promise<{
  readonly running: Running;
  readonly doors: readonly DoorAt[];
  readonly ready: ReadinessAnswer;
}> {
  const doors = await portsAt(running.dataDir);
  const admin = doors.find(({ name }) => name === 'admin');
  return { running, doors, ready: admin === undefined ? noAnswer : await readiness(admin) };
}

const noAnswer: ReadinessAnswer = { status: 'unreachable', reason: null };

async function readiness(admin: DoorAt): Promise<ReadinessAnswer> {
  try {
    const signal = AbortSignal.timeout(limits.statusAnswerMs);
    const answer = await fetch(`http://${addressOf(admin)}/readyz`, { signal });
    const { status, reason } = (await answer.json()) as { status?: unknown; reason?: unknown };
    if (typeof status !== 'string') return noAnswer;
    return { status, reason: typeof reason === 'string' ? reason : null };
  } catch {
    return noAnswer;
  }
}

/** Where it listens, which is more than where this machine reaches it. */
function shownAddress({ host, port }: Pick<DoorAt, 'host' | 'port'>): string {
  const every = host === '::' ? '  (every address)' : host === '0.0.0.0' ? '  (every IPv4 address)' : '';
  return `${urlHost(host)}:${port}${every}`;
}

/** Where this machine reaches it. */
function addressOf({ host, port }: Pick<DoorAt, 'host' | 'port'>): string {
  return `${urlHost(reachable(host))}:${port}`;
}
