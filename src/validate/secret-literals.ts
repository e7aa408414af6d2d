/**
 * Which literals of an expression are shared keys, and where they are in its text, so that they are masked wherever it is shown. Takes its tree, and what the
 * safety rule has found; returns places. Pure.
 */
import { isKeyConstant, reachable } from './node.ts';
import type { Node } from './node.ts';
import { tokenEnds } from './parser.ts';
import type { Safety } from './safety.ts';

/**
 * Constants that are shared keys: those that checks rely on and, so that a key is masked wherever it is compared, every
 * whole constant that is compared with a secret or is in secure_compare.
 */
export function keyConstants(root: Node, safety: Safety): Set<Node> {
  const keys = new Set(safety.keys);
  for (const node of reachable(root)) {
    if (node.kind !== 'call' && node.kind !== 'any') continue;
    const { role } = node.row;
    const isComparison = role === 'equal' || role === 'unequal';
    if (
      role === 'compare' ||
      role === 'compareAny' ||
      (isComparison && node.args.some(({ secret }) => secret))
    ) {
      for (const arg of node.args) addConstants(arg, keys);
    }
    const key =
      role === 'mac' || role === 'verify' ? node.args[0] : role === 'token' ? node.args[1] : undefined;
    if (key !== undefined && isKeyConstant(key)) keys.add(key);
  }
  return keys;
}

function addConstants(operand: Node, keys: Set<Node>): void {
  if (operand.kind === 'constant') keys.add(operand);
  else if (operand.kind === 'array') for (const item of operand.args) addConstants(item, keys);
}

export function literalRanges(text: string, keys: ReadonlySet<Node>): { start: number; end: number }[] {
  const starts = new Set([...keys].flatMap((node) => (node.kind === 'constant' ? [...node.literals] : [])));
  if (starts.size === 0) return [];
  const ends = tokenEnds(text);
  // A literal whose end is not found is masked to the end of the text rather than shown.
  return [...starts].sort((a, b) => a - b).map((start) => ({ start, end: ends.get(start) ?? text.length }));
}
