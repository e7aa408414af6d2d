/**
 * Sockets that are open before Headgate starts, as passed by systemd (`sd_listen_fds`): LISTEN_FDS of them from number 3 on, for the process
 * LISTEN_PID, named by LISTEN_FDNAMES. A port below 1024 then needs no right of Headgate's, and clients that connect during a restart wait instead
 * of being refused. Takes Settings and the environment; returns Settings in which each door has its socket's address, so that all checks of
 * addresses see the real one. Throws SocketsError, in one sentence. Reads /proc.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { PlainError } from '../kit/plain-error.ts';
import type { Settings, SocketName } from '../config/settings.ts';

class SocketsError extends PlainError {
  override readonly name = 'SocketsError';
}

const ports = {
  listen: 'listenPort',
  challenge: 'listenAcmeHttpPort',
  sql: 'sqlPort',
  gateway: 'gatewayPort',
  admin: 'adminPort',
} as const satisfies Record<SocketName, keyof Settings>;
const hosts = { listen: 'listenHost', sql: 'sqlHost', gateway: 'gatewayHost', admin: 'adminHost' } as const;

/** The first file descriptor that is passed. */
const firstFd = 3;

interface PassedOn {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly pid: number;
}

/** `doors`: those that this command opens; a single unnamed socket is for the first of them. */
export function withSockets(settings: Settings, given: PassedOn, doors: readonly SocketName[]): Settings {
  let found = settings;
  for (const [i, name] of namesOf(given, doors).entries()) {
    const door = doors.find((it) => it === name);
    const fd = firstFd + i;
    if (door === undefined)
      throw new SocketsError(
        `a socket named ${JSON.stringify(name)} was passed to Headgate: FileDescriptorName must be one of ${doors.join(', ')}`,
      );
    if (found.sockets[door] !== undefined)
      throw new SocketsError(`two sockets named ${door} were passed to Headgate, which accepts one`);
    if (!isOpened(settings, door))
      throw new SocketsError(
        `a socket named ${door} was passed to Headgate, whose settings do not open that door`,
      );
    const { host, port } = addressOf(fd, door);
    const at = door === 'challenge' ? {} : { [hosts[door]]: host };
    found = { ...found, ...at, [ports[door]]: port, sockets: { ...found.sockets, [door]: fd } };
  }
  return found;
}

function isOpened(settings: Settings, door: SocketName): boolean {
  if (door === 'listen') return settings.listenEnabled;
  if (door !== 'challenge') return true;
  return settings.listenAcmeDomains.length > 0 && settings.listenAcmeChallenge === 'http-01';
}

function namesOf({ env, pid }: PassedOn, doors: readonly SocketName[]): readonly string[] {
  const { LISTEN_FDS: fds = '', LISTEN_PID: whose = '', LISTEN_FDNAMES: text = '' } = env;
  // The sockets may be meant for a parent process, whose environment was inherited unchanged.
  if (fds === '' || whose !== String(pid)) return [];
  if (!/^\d{1,2}$/.test(fds)) throw new SocketsError('LISTEN_FDS must be a number of sockets');
  const names = text === '' ? [] : text.split(':');
  const count = Number(fds);
  // By default systemd names a socket after its unit, and systemd-socket-activate names it unknown.
  if (count === 1 && doors.every((door) => door !== names[0])) {
    const [name = ''] = names;
    if (name === '' || name === 'unknown' || name.endsWith('.socket')) return doors.slice(0, 1);
  }
  return Array.from({ length: count }, (_, i) => names[i] ?? '');
}

/** The address on which a socket listens, from the kernel. */
function addressOf(fd: number, door: string): { readonly host: string; readonly port: number } {
  const [, inode] = /^socket:\[(\d+)\]$/.exec(linkOf(fd)) ?? [];
  for (const table of inode === undefined ? [] : ['tcp', 'tcp6']) {
    for (const line of tableOf(table)) {
      const [, local = '', , state, , , , , , of] = line.trim().split(/\s+/);
      // 0A: listening.
      if (of === inode && state === '0A') return parseAddress(local);
    }
  }
  throw new SocketsError(
    `what was passed to Headgate as the socket named ${door} is not a listening TCP socket`,
  );
}

function linkOf(fd: number): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}

function tableOf(name: string): readonly string[] {
  try {
    return readFileSync(`/proc/self/net/${name}`, 'latin1').split('\n');
  } catch {
    return [];
  }
}

/** The format of /proc/net/tcp and tcp6: words of 32 bits in the machine's byte order. */
function parseAddress(text: string): { readonly host: string; readonly port: number } {
  const [words = '', port = ''] = text.split(':');
  const bytes = Buffer.from(words, 'hex').swap32();
  const groups = bytes.toString('hex').match(/.{4}/g) ?? [];
  const host =
    bytes.length === 4 ? bytes.join('.') : bytes.every((it) => it === 0) ? '::' : plainOf(groups.join(':'));
  return { host, port: Number.parseInt(port, 16) };
}

/** In the usual notation. */
const plainOf = (host: string): string => new URL(`http://[${host}]/`).hostname.slice(1, -1);
