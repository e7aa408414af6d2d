/**
 * The keys that seal secrets, in order: the first one seals, all of them open. More than one is there while keys are
 * being rotated. A key is found by its id, which says nothing of the key itself.
 */
import { createHash } from 'node:crypto';

export interface MasterKey {
  /** `keyIdBytes` long. */
  readonly id: Buffer;
  readonly key: Buffer;
}

export interface KeyRing {
  /** None where there is no key yet. */
  keys(): readonly MasterKey[];
  /** Makes the first key where there is none: only for who knows that nothing is sealed with another one. */
  make(): Promise<void>;
  /** Looks whether there are others now. Never throws: what cannot be read stays as it was. */
  reread(): void;
}

export const keyIdBytes = 4;

export function masterKeyOf(key: Buffer): MasterKey {
  const id = createHash('sha256').update('headgate master key id\0').update(key).digest();
  return { id: id.subarray(0, keyIdBytes), key };
}

/** Keys that stay what they are, from the environment. */
export function fixedKeys(first: Buffer, ...others: readonly Buffer[]): KeyRing {
  const keys: readonly [MasterKey, ...MasterKey[]] = [masterKeyOf(first), ...others.map(masterKeyOf)];
  return { keys: () => keys, make: () => Promise.resolve(), reread: () => {} };
}
