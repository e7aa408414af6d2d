/** How much of Headgate's bounds, and of the machine, is one listener process's. Pure. */
import type { Resources } from '../../kit/cores.ts';
import type { Limits } from '../../tables/limits.ts';
import { limits as allLimits } from '../../tables/limits.ts';

/**
 * How many there are where the owner does not say: the engine wants about half of the cores when it is beside, and each
 * process wants memory. One where that leaves less than two.
 */
export function listenersOf({ cores, memoryBytes }: Resources, limits: Limits = allLimits): number {
  const fits = Math.floor(Math.min(cores / 2, memoryBytes / limits.listenerMemoryBytes));
  return Math.max(1, Math.min(fits, limits.listenersMax));
}

/**
 * The bounds of one of several. What bounds a process's own work (lanes, threads, sizes) stays as it is; what is held of
 * the machine, the engine or a table together is divided. A share of the bodies never becomes so small that the
 * largest body that is allowed would not fit beside another.
 */
export function shareOf(limits: Limits, of: number, bodyBytesMax: number): Limits {
  if (of <= 1) return limits;
  const part = (all: number, least: number) => Math.max(least, Math.ceil(all / of));
  return {
    ...limits,
    bodiesInFlightBytesMax: part(limits.bodiesInFlightBytesMax, 2 * bodyBytesMax),
    commitConnectionsMax: part(limits.commitConnectionsMax, limits.listenerCommitConnectionsMin),
    rejectedWaitingMax: part(limits.rejectedWaitingMax, 1),
    rejectedWaitingBytesMax: part(limits.rejectedWaitingBytesMax, limits.rejectedBatchBytesMax),
    rejectedBurst: part(limits.rejectedBurst, 1),
    rejectedPerSecond: part(limits.rejectedPerSecond, 1),
    handshakesPerSecond: part(limits.handshakesPerSecond, 1),
    handshakesBurst: part(limits.handshakesBurst, 1),
    handshakesWaitingMax: part(limits.handshakesWaitingMax, 1),
  };
}
