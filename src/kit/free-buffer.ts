/**
 * Memory of large buffers, given back when they are done with: what V8 will collect some time later is memory all the
 * same, and a flood of large bodies brings more of it than is held. Takes a buffer and empties it.
 */
import { MessageChannel } from 'node:worker_threads';

/** Smaller ones are not worth it, and may be a part of what Node shares out among several (`Buffer.poolSize`, 8 KiB). */
const bytesMin = 32 * 1024;

/** What is larger glibc takes from the system and gives back whole, whatever was freed before (mallopt(3), M_MMAP_THRESHOLD). */
const heapBytesMax = 32 * 1024 * 1024;
/** From this size on that is worth it: V8 counts all of it, and collects earlier. */
export const apartBytesMin = 8 * 1024 * 1024;
/** Views of memory that is all theirs, although there is more of it. */
const owners = new WeakSet<Buffer>();

/**
 * Memory for so many bytes at least that is no part of the C library's heap, where what is large and freed leaves holes
 * between small things that stay. What is never written to is not there.
 */
export function allocApart(bytes: number): Buffer {
  try {
    return Buffer.allocUnsafeSlow(Math.max(bytes, heapBytesMax + 1));
  } catch {
    // The machine promises no more memory than it has.
    return Buffer.allocUnsafeSlow(bytes);
  }
}

/** Memory for so many bytes, apart where they are many. */
export function allocLarge(bytes: number): Buffer {
  return bytes < apartBytesMin ? Buffer.allocUnsafe(bytes) : startOf(allocApart(bytes), bytes);
}

/** The first bytes of what `allocApart` gave, to be given back with all of it. */
export function startOf(apart: Buffer, bytes: number): Buffer {
  const start = apart.subarray(0, bytes);
  owners.add(start);
  return start;
}

let nowhere: MessageChannel['port1'] | null = null;

/**
 * Gives back the memory of a buffer at once. To be called by who knows that nobody reads it any more, the kernel included:
 * everything written from it has been written. Any view of it is empty from then on, so that whoever was forgotten reads
 * nothing, and never what the memory holds next. A buffer that is a part of something larger is left alone: the rest of
 * that may be somebody else's.
 */
export function freeBuffer(buffer: Buffer): void {
  if (buffer.byteLength === buffer.buffer.byteLength || owners.has(buffer)) freeStore(buffer);
}

/** The same for a view of memory that is all of one owner, with whatever is in front of it and behind it. */
export function freeStore({ buffer: memory }: Buffer): void {
  if (memory.byteLength < bytesMin || !(memory instanceof ArrayBuffer)) return;
  // What is transferred to a port whose other end is closed is dropped there and then; no other call of Node frees an
  // ArrayBuffer that V8 still knows of (`transfer(0)`, where it is there, keeps the accounting but not the promptness).
  nowhere ??= closedPort();
  nowhere.postMessage(null, [memory]);
}

/** Gives back `source`, and `made` of it, which is a view of the same memory or of all of its own. */
export function freeMade(made: Buffer, source: Buffer): void {
  if (made.buffer !== source.buffer) freeStore(made);
  freeBuffer(source);
}

function closedPort(): MessageChannel['port1'] {
  const { port1, port2 } = new MessageChannel();
  port2.close();
  return port1;
}
