/**
 * What follows from an expression about whether a check held (safety.ts), and how that of a construct follows from its parts: AND, OR, NOT, IS, CASE, COALESCE,
 * GREATEST and LEAST, NULLIF. What cannot be proved is assumed to be unsafe. Pure.
 */
import { childrenOf } from './node.ts';
import type { Node, NodeOf } from './node.ts';

export interface Proof {
  /** TRUE implies that a check held. */
  readonly whenTrue: boolean;
  /** FALSE implies that a check held. */
  readonly whenFalse: boolean;
  /** Not NULL implies that a check held. */
  readonly whenKnown: boolean;
}

const nothing: Proof = { whenTrue: false, whenFalse: false, whenKnown: false };

/** `proofOf`: of its arguments. */
export function proofOfConstruct(node: Node, proofOf: (part: Node) => Proof): Proof {
  const parts = childrenOf(node).map(proofOf);
  const [first = nothing] = parts;
  switch (node.kind) {
    case 'and':
    case 'or': {
      const isAnd = node.kind === 'and';
      const whenTrue = isAnd ? parts.some((p) => p.whenTrue) : parts.every((p) => p.whenTrue);
      const whenFalse = isAnd ? parts.every((p) => p.whenFalse) : parts.some((p) => p.whenFalse);
      return { whenTrue, whenFalse, whenKnown: whenTrue && whenFalse };
    }
    case 'not':
      return { whenTrue: first.whenFalse, whenFalse: first.whenTrue, whenKnown: first.whenKnown };
    case 'case':
      return choice(node, proofOf);
    case 'coalesce':
    case 'greatest':
    case 'least':
      return {
        whenTrue: parts.every((p) => p.whenTrue),
        whenFalse: parts.every((p) => p.whenFalse),
        whenKnown: parts.every((p) => p.whenKnown),
      };
    case 'test':
      return tested(node, first);
    case 'nullif':
      return first;
    default:
      return nothing;
  }
}

function choice({ branches, otherwise }: NodeOf<'case'>, proofOf: (part: Node) => Proof): Proof {
  const implied = (fact: keyof Proof): boolean =>
    branches.every(({ when, result }) => proofOf(when).whenTrue || proofOf(result)[fact]) &&
    proofOf(otherwise)[fact];
  return {
    whenTrue: implied('whenTrue'),
    whenFalse: implied('whenFalse'),
    whenKnown: implied('whenKnown'),
  };
}

function tested({ test, negated }: NodeOf<'test'>, part: Proof): Proof {
  const { whenTrue, whenFalse, whenKnown } = part;
  const positive = { true: whenTrue, false: whenFalse, null: false, unknown: false }[test];
  // IS TRUE is false for FALSE and NULL, which imply nothing; IS NULL is false for every known value.
  const negative =
    test === 'null' || test === 'unknown'
      ? whenKnown || (whenTrue && whenFalse && test === 'unknown')
      : false;
  return negated
    ? { whenTrue: negative, whenFalse: positive, whenKnown: false }
    : { whenTrue: positive, whenFalse: negative, whenKnown: false };
}
