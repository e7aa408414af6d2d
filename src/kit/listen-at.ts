import { lookup } from 'node:dns/promises';
import type { AddressInfo } from 'node:net';

/** Where a server listens. */
export interface ListenAt {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** A socket that already listens there, from the parent process; absent: none does. */
  readonly fd?: number | undefined;
}

/** For `server.listen`. */
export function listenAt({ host, port, fd }: ListenAt): { host: string; port: number } | { fd: number } {
  return fd === undefined ? { host, port } : { fd };
}

/** The other addresses of `localhost`, which may name two. They need not exist. */
export async function alsoAt({ host, fd }: ListenAt, bound: AddressInfo): Promise<readonly ListenAt[]> {
  if (host !== 'localhost' || fd !== undefined) return [];
  const all = await lookup(host, { all: true }).catch(() => []);
  return all.flatMap(({ address }) =>
    address === bound.address ? [] : [{ host: address, port: bound.port }],
  );
}
