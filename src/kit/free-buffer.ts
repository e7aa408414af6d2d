/**
 * Gives the memory of large buffers back as soon as they are no longer needed: memory that V8 will collect later is still
 * in use, and a flood of large bodies leaves more of it than is held. Takes a buffer and empties it.
 */
import { MessageChannel } from 'node:worker_threads';

/** Smaller buffers are not worth it, and may be part of the pool that Node shares among several (`Buffer.poolSize`, 8 KiB). */
const bytesMin = 32 * 1024;

/** Larger blocks glibc takes from the system and gives back whole, whatever was freed before (mallopt(3), M_MMAP_THRESHOLD). */
const heapBytesMax = 32 * 1024 * 1024;
/** From this size on, a block of its own is worth it: V8 counts all of it, and collects earlier. */
export const apartBytesMin = 8 * 1024 * 1024;
/** Views that own all of their memory, although they show only a part of it. */
const owners = new WeakSet<Buffer>();

/**
 * Memory for at least `bytes` bytes outside the C library's heap, where large freed blocks leave holes between small ones
 * that stay. Pages that are never written to take no memory.
 */
export function allocApart(bytes: number): Buffer {
  try {
    return Buffer.allocUnsafeSlow(Math.max(bytes, heapBytesMax + 1));
  } catch {
    // The machine does not overcommit memory.
    return Buffer.allocUnsafeSlow(bytes);
  }
}

/** Memory for `bytes` bytes, outside the heap if they are many. */
export function allocLarge(bytes: number): Buffer {
  return bytes < apartBytesMin ? Buffer.allocUnsafe(bytes) : startOf(allocApart(bytes), bytes);
}

/** The first bytes of a buffer of `allocApart`; freeing them frees all of it. */
export function startOf(apart: Buffer, bytes: number): Buffer {
  const start = apart.subarray(0, bytes);
  owners.add(start);
  return start;
}

let nowhere: MessageChannel['port1'] | null = null;

/**
 * Gives back the memory of a buffer at once. The caller must know that nobody reads it any more, the kernel included:
 * everything written from it has been written. Any view of it is empty from then on, so that a forgotten reader reads
 * nothing, and never what the memory holds next. A buffer that is a part of something larger is left alone: the rest may
 * belong to somebody else.
 */
export function freeBuffer(buffer: Buffer): void {
  if (buffer.byteLength === buffer.buffer.byteLength || owners.has(buffer)) freeStore(buffer);
}

/** The same for a view of memory that has one owner, including what is before and after the view. */
export function freeStore({ buffer: memory }: Buffer): void {
  if (memory.byteLength < bytesMin || !(memory instanceof ArrayBuffer)) return;
  // An ArrayBuffer that is transferred to a port whose other end is closed is freed at once; no other call of Node frees one
  // that V8 still knows of (`transfer(0)`, if available, keeps the accounting but is not prompt).
  nowhere ??= closedPort();
  nowhere.postMessage(null, [memory]);
}

/** Gives back `source`, and `made`, which was made from it and is a view of the same memory or owns all of its own; neither if they are below 32 KiB. */
export function freeLarge(made: Buffer, source: Buffer): void {
  if (made.buffer !== source.buffer) freeStore(made);
  freeBuffer(source);
}

function closedPort(): MessageChannel['port1'] {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  return port1;
}
