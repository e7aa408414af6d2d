/**
 * Tries the addresses of the doors before anything is created, so that a port in use is reported while the data directory is
 * untouched; and writes the file that names the actual ports. Takes Settings, returns problems, one line each, with the setting
 * to change.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { Server } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { urlHost } from '../kit/address.ts';
import type { Closer } from '../kit/closer.ts';
import type { ListenAt } from '../kit/listen-at.ts';
import { settingsTable } from '../config/settings.ts';
import type { Settings } from '../config/settings.ts';
import { announce, holdersOfPorts } from './running.ts';
import type { Running } from './running.ts';

type DoorName = 'listen' | 'sql' | 'gateway' | 'admin';

interface NamedDoorAt extends ListenAt {
  readonly hostName: string;
  readonly portName: string;
}

export function doorAt(settings: Settings, door: DoorName): ListenAt {
  return { host: hostOf(settings, door), port: settings[`${door}Port`], fd: settings.sockets[door] };
}

/** `::` takes IPv4 as well: Node asks for that, whatever the machine's default is. */
export function hostOf(settings: Settings, door: DoorName): string {
  const host = settings[`${door}Host`];
  if (door !== 'listen' || host !== '*') return host;
  const addresses = Object.values(networkInterfaces()).flatMap((of) => of ?? []);
  return addresses.some(({ family }) => family === 'IPv6') ? '::' : '0.0.0.0';
}

export function doorsOf(settings: Settings, doors: readonly DoorName[]): readonly NamedDoorAt[] {
  return doors
    .filter((door) => door !== 'listen' || settings.listenEnabled)
    .map((door) => ({
      ...doorAt(settings, door),
      hostName: settingsTable[`${door}Host`].env,
      portName: settingsTable[`${door}Port`].env,
    }));
}

/** All doors that `headgate start` opens. */
export function allDoors(settings: Settings): readonly NamedDoorAt[] {
  const doors = doorsOf(settings, ['listen', 'sql', 'gateway', 'admin']);
  if (settings.listenAcmeDomains.length === 0 || settings.listenAcmeChallenge !== 'http-01') return doors;
  const { listenAcmeHttpPort: port } = settings;
  const host = hostOf(settings, 'listen');
  const { listenHost, listenAcmeHttpPort } = settingsTable;
  const { challenge: fd } = settings.sockets;
  return [...doors, { host, port, fd, hostName: listenHost.env, portName: listenAcmeHttpPort.env }];
}

/** Two of Headgate's own doors share one port. */
export function sharedPorts(doors: readonly NamedDoorAt[]): string[] {
  return doors.flatMap((door, i) =>
    doors
      .slice(i + 1)
      .filter(({ host, port }) => port !== 0 && port === door.port && overlap(host, door.host))
      .map(({ portName, port }) => `${door.portName} and ${portName} are both ${port}: give each its own`),
  );
}

function overlap(a: string, b: string): boolean {
  return a === b || [a, b].some((host) => host === '0.0.0.0' || host === '::');
}

/** Listens on all of them at once, for a moment. */
export async function takenPorts(doors: readonly NamedDoorAt[]): Promise<string[]> {
  const servers: Server[] = [];
  const failed: [NamedDoorAt, NodeJS.ErrnoException][] = [];
  for (const door of doors.filter(({ fd }) => fd === undefined)) {
    // A client that connects at this moment is disconnected and can try again.
    const server = createServer((socket) => socket.destroy());
    const error = await new Promise<NodeJS.ErrnoException | null>((resolve) => {
      server.once('error', resolve);
      server.listen({ host: door.host, port: door.port, exclusive: true }, () => resolve(null));
    });
    if (error === null) servers.push(server);
    else failed.push([door, error]);
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => void server.close(resolve))));
  const holders = failed.length === 0 ? null : await holdersOfPorts();
  return failed.map(([door, error]) => problemOf(door, error, holders?.get(door.port)));
}

function problemOf(
  { host, port, hostName, portName }: NamedDoorAt,
  error: NodeJS.ErrnoException,
  holder: Running | undefined,
): string {
  const { code = 'unknown error' } = error;
  const at = `${urlHost(host)}:${port}`;
  const who =
    holder === undefined ? 'another program' : `the Headgate on ${holder.dataDir} (pid ${holder.pid})`;
  if (code === 'EADDRINUSE')
    return `${at} is in use by ${who}: set ${portName} to another port (0 picks a free one)`;
  if (code === 'EACCES') return `this user may not listen on ${at}: set ${portName} to a port from 1024 on`;
  return `${hostName}=${host} is not an address to listen on (${code})`;
}

/** Tells scripts which ports were chosen; removed when Headgate has stopped. */
export async function writePorts(dataDir: string, doors: object, closer: Closer): Promise<void> {
  const path = join(dataDir, 'ports.json');
  await mkdir(dataDir, { recursive: true });
  await writeFile(path, `${JSON.stringify({ pid: process.pid, ...doors }, null, 2)}\n`);
  closer.add('ports.json', () => rm(path, { force: true }));
  await announce(dataDir, closer);
}
