/** For tables whose checks need no keys that are fetched. */
import { KeySets } from '../../src/validate/key-sets.ts';
import { limits } from '../../src/config/limits.ts';

export const noKeySets = new KeySets([], { clock: () => 0, limits, observe: () => undefined });
