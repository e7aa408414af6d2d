/**
 * The safety rule: an expression must not be TRUE unless a check held. For every boolean part it is determined whether
 * TRUE implies a check, whether FALSE does (for NOT), and for every part whether being not NULL does (for jwt_verify).
 * What cannot be proved is assumed to be unsafe.
 *
 * A check compares something that a sender cannot know with something that only the sender chose. "Cannot know" is
 * tracked through the functions that preserve it (`Row.carries`); whatever lets a request choose or empty the value
 * (coalesce with a header, left(…, header)) loses it. Of a digest, enough must be left (`digest-strength.ts`).
 */
import { keptOf, keyOfDigest } from './digest-strength.ts';
import { childrenOf, isKeyConstant } from './node.ts';
import type { Node, NodeOf } from './node.ts';
import { proofOfConstruct } from './safety-constructs.ts';
import type { Proof } from './safety-constructs.ts';

/** Functions whose value depends on all of the argument. */
const keepsAll: ReadonlySet<string> = new Set([
  'encode',
  'decode',
  'convert_to',
  'convert_from',
  'lower',
  'upper',
  'replace',
  'cast',
]);

/** The minimum length, in characters, of a digest that still makes a check. */
const keptCharsMin = 8;

const isConstant = ({ kind }: Node): boolean => kind === 'constant';

export class Safety {
  readonly #proofs = new Map<number, Proof>();
  readonly #hidden = new Map<number, boolean>();
  /** Constants that are shared keys. */
  readonly keys = new Set<Node>();
  /** Values that checks depend on and that are known once the secrets are: if one is empty, guessed headers would be accepted. */
  readonly bound = new Set<Node>();

  proof(node: Node): Proof {
    const known = this.#proofs.get(node.id);
    if (known !== undefined) return known;
    const proof = this.#prove(node);
    this.#proofs.set(node.id, proof);
    return proof;
  }

  #prove(node: Node): Proof {
    const parts = childrenOf(node).map((part) => this.proof(part));
    switch (node.kind) {
      case 'constant': {
        const isNull = node.value === null;
        return { whenTrue: node.value !== true, whenFalse: node.value !== false, whenKnown: isNull };
      }
      case 'call':
        return this.#call(node, parts);
      case 'any':
        return this.#any(node, parts);
      default:
        return proofOfConstruct(node, (part) => this.proof(part));
    }
  }

  #call(node: NodeOf<'call'>, parts: readonly Proof[]): Proof {
    const { row, args } = node;
    // A strict function is not NULL only if no argument is.
    const known = row.strict && parts.some((part) => part.whenKnown);
    const held: Proof = { whenTrue: known, whenFalse: known, whenKnown: known };
    const [left, right] = args;
    if (left === undefined || right === undefined) return held;
    switch (row.role) {
      case 'compare':
        return { ...held, whenTrue: known || this.#isCheck(left, right, true) };
      case 'compareAny':
        return { ...held, whenTrue: known || this.#isListCheck(left, right, true) };
      case 'equal':
        return { ...held, whenTrue: known || this.#isEquality(left, right) };
      case 'unequal':
        return { ...held, whenFalse: known || this.#isEquality(left, right) };
      case 'verify':
        return { ...held, whenTrue: known || this.#isVerification(args) };
      case 'token': {
        const verified = known || (left.sender && !right.varies && this.#key(right));
        return { whenTrue: verified, whenFalse: verified, whenKnown: verified };
      }
      case 'issued': {
        // The keys are an issuer's that the owner has named.
        const verified = known || left.sender;
        return { whenTrue: verified, whenFalse: verified, whenKnown: verified };
      }
      default:
        return held;
    }
  }

  #any({ row, all, args: [value, items] }: NodeOf<'any'>, parts: readonly Proof[]): Proof {
    const known = parts[0]?.whenKnown === true || parts[1]?.whenKnown === true;
    // `x = ALL ('{}')` is TRUE for an empty list: only = ANY and <> ALL compare.
    const whenTrue = !all && row.role === 'equal' && this.#isListCheck(value, items, false);
    const whenFalse = all && row.role === 'unequal' && this.#isListCheck(value, items, false);
    // NULL lists and values make ANY unknown, but an empty list is decided without looking at the value.
    const decided = known && parts[1]?.whenKnown === true;
    return {
      whenTrue: whenTrue || decided || (!all && known),
      whenFalse: whenFalse || decided || (all && known),
      whenKnown: decided,
    };
  }

  /** Only text and bytes can be unguessable: `secure_compare(…) = false` is not a check. */
  #isEquality(left: Node, right: Node): boolean {
    return (left.type === 'text' || left.type === 'bytea') && this.#isCheck(left, right, false);
  }

  /** One side was chosen only by the sender, the other is not known to outsiders. A whole constant counts for secure_compare. */
  #isCheck(left: Node, right: Node, constants: boolean): boolean {
    return this.#isPair(left, right, constants) || this.#isPair(right, left, constants);
  }

  #isPair(chosen: Node, hidden: Node, constants: boolean): boolean {
    return chosen.sender && !chosen.secret && this.#operand(hidden, constants);
  }

  #operand(node: Node, constants: boolean): boolean {
    if (isConstant(node)) return constants && this.#key(node);
    if (this.isHidden(node)) return true;
    const key = constants ? keyOfDigest(node) : null;
    if (key !== null) this.keys.add(key);
    return key !== null;
  }

  #isListCheck(value: Node, items: Node, constants: boolean): boolean {
    if (value.sender && !value.secret) {
      if (items.kind === 'array')
        return items.args.length > 0 && items.args.every((item) => this.#operand(item, constants));
      if (items.kind === 'constant' && constants && Array.isArray(items.value)) {
        this.keys.add(items);
        return items.value.length > 0 && items.value.every((item) => item !== null && item !== '');
      }
      return false;
    }
    return items.sender && !items.secret && this.#operand(value, constants);
  }

  #isVerification(args: readonly Node[]): boolean {
    const [key, ...signed] = args;
    if (key === undefined || !signed.some((arg) => arg.sender)) return false;
    // One of the keys of a URL that the owner has named: the sender may choose among them.
    if (key.kind === 'call' && key.row.role === 'published') return true;
    return !key.varies && this.#key(key);
  }

  /** A key from a secret, or a constant that counts as a key from now on. */
  #key(node: Node): boolean {
    if (isConstant(node)) {
      if (!isKeyConstant(node)) return false;
      this.keys.add(node);
      return true;
    }
    return this.isHidden(node);
  }

  /** Whether a sender without the key can neither know nor choose the value. */
  isHidden(node: Node): boolean {
    const known = this.#hidden.get(node.id);
    if (known !== undefined) return known;
    const hidden = this.#isHidden(node);
    this.#hidden.set(node.id, hidden);
    if (hidden && !node.varies) this.bound.add(node);
    return hidden;
  }

  #isHidden(node: Node): boolean {
    switch (node.kind) {
      case 'secret':
        return true;
      case 'call':
        return this.#isHiddenCall(node);
      case 'coalesce':
      case 'greatest':
      case 'least':
        return node.args.every((arg) => this.isHidden(arg));
      case 'case':
        return [...node.branches.map(({ result }) => result), node.otherwise].every(
          (value) => (value.kind === 'constant' && value.value === null) || this.isHidden(value),
        );
      case 'nullif':
        return this.isHidden(node.args[0]);
      default:
        return false;
    }
  }

  #isHiddenCall(node: NodeOf<'call'>): boolean {
    const { row, args, varies } = node;
    const [first] = args;
    if (row.role === 'mac') return first !== undefined && !first.varies && this.#key(first);
    // concat() leaves NULL out: only a secret itself, which is never NULL, is certain to be in it.
    if (row.name === 'concat') return args.some(({ kind }) => kind === 'secret');
    if (row.carries === 'any') return args.some((arg) => this.isHidden(arg));
    if (row.carries === null || first === undefined || !this.isHidden(first)) return false;
    if (!args.slice(1).every(isConstant)) return false;
    // What is left of a secret is known when it is bound; of a digest, enough must be left.
    return !varies || row.role === 'hash' || keepsAll.has(row.name) || keptOf(node) >= keptCharsMin;
  }
}
