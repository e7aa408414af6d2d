/**
 * What may still serve a cluster when a Headgate starts on it: a server that outlived its Headgate is stopped, and any
 * other is left alone. Takes a cluster whose data directory is locked; refuses with EngineError or DataDirInUse while
 * something serves it. Never removes postmaster.pid: that file is PostgreSQL's own guard.
 */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../config/limits.ts';
import { DataDirInUse } from './data-dir-lock.ts';
import { readPidFile } from './embedded-process.ts';
import { EngineError } from './engine.ts';
import { holderOf, killServer, sendAs } from './server-processes.ts';
import type { SystemUser } from './system-user.ts';

/**
 * Stops a postmaster that outlived its Headgate, so that this one can start its own. The lock of the data directory may
 * have been deleted under a running Headgate, so the postmaster itself shows whose it is. Returns the pid, or null:
 * there was none.
 */
export async function stopOrphan(
  cluster: string,
  user: SystemUser | null,
  deadlineMs: number,
): Promise<number | null> {
  const file = await readPidFile(cluster);
  if (file === null) return null;
  const holder = await holderOf(file.pid, cluster, user);
  if (holder.is === 'served') throw new DataDirInUse(holder.by);
  if (holder.is === 'by hand') {
    throw new EngineError(
      `the database in ${cluster} is in use by a PostgreSQL that Headgate did not start (pid ${file.pid})`,
    );
  }
  if (holder.is !== 'orphan') return null;
  const send = sendAs(user);
  for (let waitedMs = 0; waitedMs < deadlineMs; waitedMs += 20) {
    if (waitedMs === 0) await send('INT', [file.pid]);
    else if (waitedMs === limits.engineStopMs) await send('QUIT', [file.pid]);
    else if (waitedMs === 2 * limits.engineStopMs) await killServer(file.pid, send);
    if ((await holderOf(file.pid, cluster, user)).is !== 'orphan') return file.pid;
    await sleep(20);
  }
  throw new EngineError(`the PostgreSQL of an earlier Headgate (pid ${file.pid}) does not stop`);
}

/**
 * The pid of a server in another container on the same volume means nothing here, and its shared memory is not visible
 * here. But its socket is in the cluster, and the kernel tells everybody whether a process listens on it. Waits for a
 * server that is about to stop.
 */
export async function refuseUnseenServer(
  cluster: string,
  socket: string,
  waitMs: number = limits.engineStopMs,
): Promise<void> {
  for (let waitedMs = 0; await listens(socket); waitedMs += 50) {
    if (waitedMs >= waitMs) {
      throw new EngineError(
        `the database in ${cluster} is in use by a PostgreSQL that this process cannot see, such as one in another container: stop that one first`,
      );
    }
    await sleep(50);
  }
}

/** Whether a server listens on a socket; a server that hangs does. */
export function listens(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'EAGAIN'));
  });
}
