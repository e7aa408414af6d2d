/**
 * What is known of a certificate and of the account that requests it, as text, and where that is stored: in a file of the data directory
 * (folder-store.ts), or sealed in the catalog that Headgates share (catalog-store.ts). Pure.
 */
import { X509Certificate } from 'node:crypto';
import type { Certificate } from './certificates.ts';

/** What an authority is to find under a domain. */
export interface Challenge {
  readonly domain: string;
  readonly token: string;
  /** The token, and whose account is asking (RFC 8555 §8.1). */
  readonly authorization: string;
}

export interface CertificateState {
  /** The account's key (PEM); null: no authority was asked yet. */
  readonly account: string | null;
  readonly certificate: Certificate | null;
  readonly challenges: readonly Challenge[];
  /** The number of consecutive failed attempts, why the last one failed, and when the next one may be made, in ms since 1970. */
  readonly failures: number;
  readonly reason: string | null;
  readonly notBeforeMs: number;
}

export const nothing: CertificateState = {
  account: null,
  certificate: null,
  challenges: [],
  failures: 0,
  reason: null,
  notBeforeMs: 0,
};

/** Written only by Headgate: a text that does not parse counts as nothing. */
export function parseState(text: string): CertificateState {
  try {
    const found = JSON.parse(text) as CertificateState;
    if (found.certificate !== null) lifetimeOf(found.certificate);
    return { ...nothing, ...found };
  } catch {
    return nothing;
  }
}

/** The lifetime of the certificate itself, in ms since 1970. Throws if the text is not a certificate. */
export function lifetimeOf({ chain }: Certificate): { readonly fromMs: number; readonly untilMs: number } {
  const { validFrom, validTo } = new X509Certificate(chain);
  return { fromMs: Date.parse(validFrom), untilMs: Date.parse(validTo) };
}

/** When a third of its lifetime is left; up to a thirtieth earlier, by `spread` from 0 to 1, so that not all Headgates ask at the same time. */
export function renewalMs(certificate: Certificate, spread: number): number {
  const { fromMs, untilMs } = lifetimeOf(certificate);
  const lifetime = untilMs - fromMs;
  return Math.floor(untilMs - lifetime / 3 - (lifetime / 30) * spread);
}

/** Where the state is stored, and who may ask for the next certificate. */
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
