/** What is no error in a VALIDATE expression, but hardly meant, or to be known. Takes its tree and the names of the headers that it reads; returns sentences. Pure. */
import { keptOf } from './digest-strength.ts';
import { isEquality } from './equality.ts';
import { childrenOf, constantOf, reachable } from './node.ts';
import type { Node } from './node.ts';

export function warningsOf(root: Node, headers: readonly string[]): string[] {
  return [...headers.flatMap(nameWarning), ...lineBreakWarning(root)];
}

/** A secret, or what is made of one, beside what the sender chose: what secure_compare is for. */
function comparesSecret(node: Node): boolean {
  if (node.kind !== 'call' && node.kind !== 'any' && node.kind !== 'distinct') return false;
  const [left, right] = node.args;
  if (!isEquality(node.row) || left === undefined || right === undefined) return false;
  return left.secret !== right.secret && (left.secret ? right : left).sender;
}

/** At a comparison of a secret that is written without secure_compare. */
export function noticesOf(root: Node): string[] {
  return [...reachable(root)].some(comparesSecret)
    ? [
        'VALIDATE compares a secret without secure_compare: Headgate does that in constant time, too, but secure_compare says so',
      ]
    : [];
}

function nameWarning(name: string): string[] {
  if (name === name.toLowerCase()) return [];
  return [`header name '${name}' is not in lower case and can never match: write '${name.toLowerCase()}'`];
}

/** The digest is longer than a line of base64, which holds 57 bytes. */
const isLong = (node: Node): boolean =>
  node.kind === 'call' && (node.row.role === 'mac' || node.row.role === 'hash') && keptOf(node) >= 57;

/** Whether a node is a digest in base64 that has a line break, as PostgreSQL writes one after 76 characters. */
function breaksLine(node: Node): boolean {
  if (node.kind !== 'call' || node.row.name !== 'encode') return false;
  const [digest, format] = node.args;
  return digest !== undefined && constantOf(format) === 'base64' && isLong(digest);
}

/** Whether a function takes its argument without line breaks. */
function dropsLineBreaks(node: Node): boolean {
  if (node.kind !== 'call') return false;
  const [, second] = node.args;
  const removed = constantOf(second);
  if (node.row.name === 'decode') return removed === 'base64';
  return (
    ['replace', 'translate'].includes(node.row.name) && typeof removed === 'string' && removed.includes('\n')
  );
}

function lineBreakWarning(root: Node): string[] {
  const isBroken = [...reachable(root)].some(
    (node) => !dropsLineBreaks(node) && childrenOf(node).some(breaksLine),
  );
  return isBroken
    ? [
        "encode(…, 'base64') writes a line break after 76 characters, as in PostgreSQL, and no sender does: write replace(encode(…, 'base64'), E'\\n', '')",
      ]
    : [];
}
