/** When a certificate and those that lead to its authority are valid. Pure: takes PEM and the time. */
import { X509Certificate } from 'node:crypto';
import { limits } from '../config/limits.ts';

/** The time during which all of them are valid, in ms since 1970. */
export interface Validity {
  readonly fromMs: number;
  readonly untilMs: number;
}

export type ValidityState = 'valid' | 'expires soon' | 'expired' | 'not yet valid';

export function validityOf(pem: Buffer): Validity {
  const blocks = pem.toString('latin1').match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g);
  const all = (blocks ?? [pem]).map((block) => new X509Certificate(block));
  return {
    fromMs: Math.max(...all.map(({ validFrom }) => Date.parse(validFrom))),
    untilMs: Math.min(...all.map(({ validTo }) => Date.parse(validTo))),
  };
}

/** Soon: within `tlsExpirySoonMs`, or in the last third of a shorter lifetime. */
export function stateAt({ fromMs, untilMs }: Validity, nowMs: number): ValidityState {
  if (nowMs >= untilMs) return 'expired';
  if (nowMs < fromMs) return 'not yet valid';
  const soonMs = Math.min(limits.tlsExpirySoonMs, (untilMs - fromMs) / 3);
  return untilMs - nowMs < soonMs ? 'expires soon' : 'valid';
}

/** Whether clients that check the certificate accept it. */
export function isValid(state: ValidityState): boolean {
  return state === 'valid' || state === 'expires soon';
}
