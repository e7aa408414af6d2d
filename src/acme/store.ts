/**
 * Where the state of a certificate is stored, and who may ask for the next one: a folder (folder-store.ts), or a catalog that Headgates share (catalog-store.ts).
 */
import type { CertificateState } from './certificate-state.ts';

export interface Store {
  /** Other Headgates show what is stored here, and see it with their next look. */
  readonly isShared: boolean;
  /** Rejects if it cannot be determined. */
  read(): Promise<CertificateState>;
  /** The stored state, if this Headgate may now ask for a while; null: another one may. */
  begin(): Promise<CertificateState | null>;
  /** `ends`: this Headgate stops asking. False: its time was over, and nothing was stored. */
  keep(state: CertificateState, ends: boolean): Promise<boolean>;
}
