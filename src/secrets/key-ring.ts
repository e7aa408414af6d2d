/**
 * The keys that seal secrets, in order: the first one seals, all of them open. There is more than one while keys are
 * being rotated. A key is identified by its id, which reveals nothing of the key itself.
 */
import { createHash } from 'node:crypto';

export interface MasterKey {
  /** `keyIdBytes` long. */
  readonly id: Buffer;
  readonly key: Buffer;
}

export interface KeyRing {
  /** Empty if there is no key yet. */
  keys(): readonly MasterKey[];
  /** Creates the first key if there is none: only for a caller that knows that nothing is sealed with another key. */
  make(): Promise<void>;
  /** Checks whether the keys have changed. Never throws: if they cannot be read, the ring stays as it was. */
  reread(): void;
}

export const keyIdBytes = 4;

export function masterKeyOf(key: Buffer): MasterKey {
  const id = createHash('sha256').update('headgate master key id\0').update(key).digest();
  return { id: id.subarray(0, keyIdBytes), key };
}

/** Fixed keys, from the environment. */
export function fixedKeys(first: Buffer, ...others: readonly Buffer[]): KeyRing {
  const keys: readonly [MasterKey, ...MasterKey[]] = [masterKeyOf(first), ...others.map(masterKeyOf)];
  return { keys: () => keys, make: () => Promise.resolve(), reread: () => {} };
}
