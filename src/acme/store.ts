/** Where the state of a certificate is kept, and who may ask for the next one: a folder (folder.ts), or a catalog that Headgates share (shared.ts). */
import type { State } from './state.ts';

export interface Store {
  /** Other Headgates show what is kept here, and see it with their next look. */
  readonly isShared: boolean;
  /** Rejects when it cannot be known. */
  read(): Promise<State>;
  /** What is kept now, when this Headgate is the one that may ask for a while; null: another one is. */
  begin(): Promise<State | null>;
  /** `ends`: this Headgate does not ask any more. False: its time was over, and nothing is kept. */
  keep(state: State, ends: boolean): Promise<boolean>;
}
