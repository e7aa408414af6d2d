/**
 * VALIDATE expressions. Takes an expression's text and the names in scope; returns an `Expression`, which says what it
 * reads, and which compile.ts makes a synchronous closure over a request; refuses (ExpressionError, when the table is created)
 * whatever does not have an exact meaning here, is not safe, or could be made expensive by a request. Touches nothing:
 * no socket, no database, no clock.
 */
import { checkCost } from './cost.ts';
import { noticesOf, warningsOf } from './expression-warnings.ts';
import { Safety } from './safety.ts';
import { keyConstants, literalRanges } from './secret-literals.ts';
import { ExpressionError } from './errors.ts';
import { type Node, type VariableName, reachable } from './node.ts';
import { parseText } from './parse.ts';
import { loadParser } from './parser.ts';
import { Typer } from './typing.ts';

export { ExpressionError, loadParser };

export interface ExpressionScope {
  /** Names of the bound secrets, as folded identifiers. */
  readonly secrets: readonly string[];
}

export interface Expression {
  readonly text: string;
  /** The name that stands for the request body's bytes; null if the body is not read. */
  readonly payloadName: string | null;
  /** Header names that appear as constants, as written. */
  readonly headersRead: readonly string[];
  /** Whether `headers` is read as a whole. */
  readonly readsAllHeaders: boolean;
  /** String literals that contain a shared key, as [start, end) of the whole token in `text`. */
  readonly secretLiterals: readonly { readonly start: number; readonly end: number }[];
  /** Whether `encoded_body` is read. */
  readonly readsEncodedBody: boolean;
  /** Whether the body is read, and of the URL neither `query` nor `url`. */
  readonly readsBodyAlone: boolean;
  /** URLs at which keys are published that it needs. */
  readonly keyUrls: readonly string[];
  readonly warnings: readonly string[];
  readonly notices: readonly string[];
  readonly root: Node;
  /** Values that its checks depend on, and that are the same for every request; see compileCheck. */
  readonly bound: readonly Node[];
}

/** Parses, types and checks an expression; `loadParser` must have resolved. */
export function parseExpression(text: string, scope: ExpressionScope): Expression {
  const typed = typeExpression(text, scope);
  const { root, payloadName } = typed;
  if (root.type !== 'bool') {
    throw new ExpressionError('42804', 'the VALIDATE expression must be boolean', root.at, {
      hint: "Compare: secure_compare(headers->>'x-signature', …).",
    });
  }
  const safety = new Safety();
  checkSafety(root, safety);
  const reads = readsOf(root);
  return {
    text,
    payloadName,
    headersRead: reads.names,
    readsAllHeaders: reads.variables.has('headers'),
    secretLiterals: literalRanges(text, keyConstants(root, safety)),
    readsEncodedBody: reads.variables.has('encoded_body'),
    readsBodyAlone:
      (reads.variables.has('payload') || reads.variables.has('encoded_body')) &&
      !reads.variables.has('query') &&
      !reads.variables.has('url'),
    keyUrls: keyUrlsOf(root),
    warnings: warningsOf(root, reads.names),
    notices: noticesOf(root),
    root,
    bound: [...safety.bound],
  };
}

/** An expression of any type, as typed: what EXPLAIN VALIDATE and the differential test evaluate. */
export interface TypedExpression {
  readonly root: Node;
  readonly payloadName: string | null;
}

export function typeExpression(text: string, scope: ExpressionScope): TypedExpression {
  if (scope.secrets.includes('headers')) {
    throw new ExpressionError('42712', 'a secret named headers hides the request headers', null, {
      hint: 'Rename the secret.',
    });
  }
  const typer = new Typer(scope.secrets);
  const node = typer.type(parseText(text));
  const root = node.type === 'unknown' ? typer.build.coerce(node, 'text') : node;
  const [payloadName = null, second] = typer.unknownNames.keys();
  if (second !== undefined) {
    const names = [...typer.unknownNames.keys()].join(', ');
    throw new ExpressionError('42703', `unknown names: ${names}`, typer.unknownNames.get(second) ?? null, {
      hint: `One name may stand for the request body. known here: headers, method, path, query, url, encoded_body${scope.secrets.map((name) => `, ${name}`).join('')}`,
    });
  }
  checkCost(root);
  return { root, payloadName };
}

function checkSafety(root: Node, safety: Safety): void {
  if (safety.proof(root).whenTrue) {
    if (root.kind !== 'constant') return;
    throw new ExpressionError('22023', 'the VALIDATE expression is never true', root.at);
  }
  throw new ExpressionError(
    '22023',
    'the VALIDATE expression accepts requests without checking a secret',
    root.at,
    {
      hint: "Every OR-branch needs secure_compare(headers->>'…', <secret or key>), a …_verify function, or an equality with something computed from a secret or by hmac().",
      detail: 'A check compares what the sender sent with what only the owner of the secret can compute.',
    },
  );
}

function readsOf(root: Node): { names: string[]; variables: ReadonlySet<VariableName> } {
  const nodes = [...reachable(root)];
  const names = nodes.flatMap((node) => (node.kind === 'header' ? [node.name] : []));
  const variables = nodes.flatMap((node) => (node.kind === 'variable' ? [node.name] : []));
  return { names: [...new Set(names)].sort(), variables: new Set(variables) };
}

/** Each once. */
function keyUrlsOf(root: Node): string[] {
  const urls = [...reachable(root)].flatMap((node) => {
    const { role = null, args = [] } = node.kind === 'call' ? { role: node.row.role, args: node.args } : {};
    const url = role === 'issued' ? args[1] : role === 'published' ? args[0] : undefined;
    return url?.kind === 'constant' && typeof url.value === 'string' ? [url.value] : [];
  });
  return [...new Set(urls)];
}
