/** One listener process's share of Headgate's bounds and of the machine. Pure. */
import type { Resources } from '../../kit/cores.ts';
import type { Limits } from '../../config/limits.ts';
import { limits as allLimits } from '../../config/limits.ts';

/**
 * The number of processes if the settings do not give one: an engine on the same machine needs about half of the cores,
 * and each process needs memory. One, if that leaves fewer than two.
 */
export function listenersOf({ cores, memoryBytes }: Resources, limits: Limits = allLimits): number {
  const fits = Math.floor(Math.min(cores / 2, memoryBytes / limits.listenerMemoryBytes));
  return Math.max(1, Math.min(fits, limits.listenersMax));
}

/**
 * The bounds of one of several processes. Bounds on a process's own work (lanes, threads, sizes) stay as they are;
 * bounds on shared use of the machine, the engine or a table are divided. The share for bodies always fits two bodies of
 * the largest size allowed.
 */
export function shareOf(limits: Limits, of: number, bodyBytesMax: number): Limits {
  if (of <= 1) return limits;
  const part = (all: number, least: number) => Math.max(least, Math.ceil(all / of));
  return {
    ...limits,
    bodiesInFlightBytesMax: part(limits.bodiesInFlightBytesMax, 2 * bodyBytesMax),
    commitConnectionsMax: part(limits.commitConnectionsMax, limits.listenerCommitConnectionsMin),
    rejectedWaitingMax: part(limits.rejectedWaitingMax, 1),
    // A batch waits, and the largest request that is kept.
    rejectedWaitingBytesMax: part(
      limits.rejectedWaitingBytesMax,
      limits.rejectedBatchBytesMax + limits.rejectedAuthenticBodyBytesMax,
    ),
    rejectedBurst: part(limits.rejectedBurst, 1),
    rejectedAuthenticBurst: part(limits.rejectedAuthenticBurst, 1),
    rejectedPerSecond: part(limits.rejectedPerSecond, 1),
    handshakesPerSecond: part(limits.handshakesPerSecond, 1),
    handshakesBurst: part(limits.handshakesBurst, 1),
    handshakesWaitingMax: part(limits.handshakesWaitingMax, 1),
  };
}
