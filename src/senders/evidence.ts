/**
 * What is known of a sender beyond its signature, and from whom. A fact without a source is no fact: what nobody has looked up is said to
 * be unverified, on the page and in the error of `dedupe = 'sender'`. Types, constructors and their words; pure.
 */
import { type Package, type PackageName, packages } from './packages.ts';

/**
 * Where the id is that a delivery keeps when it is sent again: in a header, in values of the body (paths of keys) or,
 * if one body contains several events, in each of them.
 */
export type DeliveryId =
  | { readonly header: string }
  | {
      readonly fields: readonly (readonly string[])[];
      /** What remains the same when a delivery is repeated, if other parts of the body change; absent: all of it. */
      readonly stays?: readonly (readonly string[])[];
    }
  | { readonly ofEach: string };

/** Where a fact comes from, the best first. */
export type EvidenceSource =
  /** A vendor's package that a test lets sign, or accept what we sign (`packages.ts` has its version). */
  | { readonly package: PackageName }
  /** A signed request that the vendor has published, and that a test puts to the check (`test/vectors.json` has it). */
  | { readonly vector: string }
  /** A file of the vendor's own source or specification. */
  | { readonly code: string }
  /** The vendor's documentation, and the month in which it was read. */
  | { readonly page: string; readonly read: string }
  /** Code or words of somebody else. */
  | { readonly report: string }
  /** Somebody has looked there, and it says nothing about this. */
  | { readonly silent: string; readonly read: string }
  /** Somebody has looked for a source in that month, and found none. */
  | { readonly unfound: string };

export const ran = (name: PackageName): EvidenceSource => ({ package: name });
export const vector = (where: string): EvidenceSource => ({ vector: where });
export const code = (file: string): EvidenceSource => ({ code: file });
export const page = (address: string, read: string): EvidenceSource => ({ page: address, read });
export const report = (what: string): EvidenceSource => ({ report: what });
export const silent = (where: string, read = 'November 2026'): EvidenceSource => ({ silent: where, read });
export const unfound = (month = 'November 2026'): EvidenceSource => ({ unfound: month });

/** What distinguishes a repeated delivery from a new one. */
export type DeliveryEvidence =
  /** One per event, and the same when the sender tries again: `from` says so. `but` is a sentence of limits. */
  | { readonly kind: 'known'; readonly id: DeliveryId; readonly from: EvidenceSource; readonly but?: string }
  /**
   * An id whose meaning nobody knows: null, if nobody has looked for one. `said` is a sentence: what `from` says of it, which is not that
   * it stays when the sender tries again.
   */
  | {
      readonly kind: 'unverified';
      readonly id: DeliveryId | null;
      readonly said?: string;
      readonly from?: EvidenceSource;
    }
  /** Nothing does. `why` is a sentence, and so is `instead`: what to do. */
  | { readonly kind: 'none'; readonly why: string; readonly instead?: string; readonly from: EvidenceSource };

export const known = (id: DeliveryId, from: EvidenceSource, but?: string): DeliveryEvidence => ({
  kind: 'known',
  id,
  from,
  ...(but === undefined ? {} : { but }),
});
export const unverified = (id: DeliveryId | null = null): DeliveryEvidence => ({ kind: 'unverified', id });
export const undecided = (id: DeliveryId, said: string, from: EvidenceSource): DeliveryEvidence => ({
  kind: 'unverified',
  id,
  said,
  from,
});
export const none = (why: string, from: EvidenceSource, instead?: string): DeliveryEvidence => ({
  kind: 'none',
  why,
  from,
  ...(instead === undefined ? {} : { instead }),
});

export interface Retries {
  /** Completes “tries again”: “for three days”; null: it never does. */
  readonly when: string | null;
  /** The time and the signature of a repeated request; `unsaid`: the source does not say. */
  readonly signed: 'anew' | 'as at first' | 'unsaid';
  /** When the attempts come, in seconds after the first one, where its source names them. */
  readonly afterS?: readonly number[];
  /** How long after the first attempt the last one is, in seconds, if a check of the time depends on it. */
  readonly lastS?: number;
  readonly from: EvidenceSource | readonly EvidenceSource[];
}

/** The answer that the sender takes for success, and its time limit: “a 2xx within 5 seconds”. */
export interface WantedAnswer {
  readonly what: string;
  readonly from: EvidenceSource | readonly EvidenceSource[];
}

/**
 * The other things that a page says. What is missing nobody has verified. `secret`: see `secretSources`. `retries`, `answer`: where nothing was
 * found, in the place of the sender's `retries` and `answer`.
 */
export type Evidence = Readonly<
  Partial<
    Record<
      'signature' | 'handshake' | 'rotation' | 'secret' | 'event' | 'retries' | 'answer',
      EvidenceSource | readonly EvidenceSource[]
    >
  >
>;

/** As a sentence's end: “checked against the vendor’s package `stripe` 23.1.0”. */
export function sourceText(source: EvidenceSource): string {
  if ('package' in source) {
    const { name = source.package, version, others, registry } = packageOf(source.package);
    const which = `\`${name}\` ${version}${registry === 'pip' ? ' for Python' : ''}`;
    if (others) return `checked against what the package ${which}, of somebody else, says of it`;
    return `checked against the vendor’s package ${which}`;
  }
  if ('vector' in source)
    return `checked with a signed request that the vendor has published: ${source.vector}`;
  if ('code' in source) return `from the vendor’s source: ${source.code}`;
  if ('page' in source) return `from its documentation of ${source.read}: ${source.page}`;
  if ('report' in source) return `by report only: ${source.report}`;
  if ('silent' in source) return `not said in ${source.silent}, ${source.read}`;
  return `no source found in ${source.unfound}: if you know one, tell us`;
}

function packageOf(name: PackageName): Package {
  return packages[name];
}

/** Whether the package is not the vendor's own. */
export const isOthers = (name: PackageName): boolean => packageOf(name).others === true;

/** A vendor's package that signs or checks with the text of the secret as it is stored has said what its form is. */
export function secretSources({ secret, signature }: Evidence): readonly EvidenceSource[] {
  if (secret !== undefined) return [secret].flat();
  if (signature === undefined) return [];
  return [signature].flat().filter((it) => 'package' in it && !isOthers(it.package));
}

export const nobody = 'nobody has verified this: tell us';

/** The id, whether or not anybody has verified it; null: there is none. */
export function idOf(delivery: DeliveryEvidence): DeliveryId | null {
  return delivery.kind === 'none' ? null : delivery.id;
}
