/**
 * VALIDATE expressions that nobody would write on purpose: those of all senders, corrupted at random. Each is refused with
 * a position inside its text, or becomes a check that refuses strangers, whatever they send, and never throws.
 */
import assert from 'node:assert/strict';
import { expressionOf, senders } from '../../src/senders/senders.ts';
import { compileCheck } from '../../src/validate/compile.ts';
import { ExpressionError, loadParser, parseExpression } from '../../src/validate/expression.ts';
import type { Expression } from '../../src/validate/expression.ts';
import type { CheckRequest } from '../../src/types/request.ts';
import type { Random } from './fuzz.ts';
import { mutate, pick } from './fuzz.ts';

const secret = '8f1d0c5b6a7e49d2b3c4';
const scope = { secrets: ['s'] };
const pieces = ['', '0', '1', 'x', '\0', '{}', '[]', '""', 'null', 'sha256=', 't=1,v1=00', 'é', '%', '='];

/** Requests of a client that does not know the secret; the headers are those that the expression reads. */
function strangers(random: Random, headers: readonly string[]): CheckRequest[] {
  return Array.from({ length: 4 }, () => ({
    method: pick(random, ['POST', 'GET', '']),
    target: `/webhook/dev/public/t?${pick(random, pieces)}`,
    rawHeaders: headers.flatMap((name) => (random() < 0.8 ? [name, pick(random, pieces)] : [])),
    arrivedAtMs: pick(random, [0, 1_700_000_000_000]),
    body: Buffer.from(pick(random, pieces)),
  }));
}

function read(text: string): Expression | ExpressionError {
  try {
    return parseExpression(text, scope);
  } catch (error) {
    if (error instanceof ExpressionError) return error;
    throw new Error(`a bug met ${JSON.stringify(text)}`, { cause: error });
  }
}

export interface ExpressionsTried {
  readonly refused: number;
  readonly taken: number;
}

export async function fuzzExpressions(count: number, random: Random): Promise<ExpressionsTried> {
  await loadParser();
  const seeds = [...senders.values()]
    .map((sender) => expressionOf(sender, 's'))
    .filter((text) => !(read(text) instanceof ExpressionError));
  assert.ok(seeds.length > 50);
  let taken = 0;
  for (let i = 0; i < count; i++) {
    const text = mutate(random, Buffer.from(pick(random, seeds))).toString('utf8');
    const expression = read(text);
    if (expression instanceof ExpressionError) {
      const { position, sqlstate } = expression;
      assert.ok(position === null || (position >= 0 && position <= text.length), JSON.stringify(text));
      assert.match(sqlstate, /^[0-9A-Z]{5}$/);
      continue;
    }
    taken += 1;
    // A key in the text itself may have become one that is easy to guess.
    if (expression.secretLiterals.length > 0) continue;
    const secrets = new Map([['s', secret]]);
    const check = compileCheck(expression, { secrets, publicUrl: null });
    for (const request of strangers(random, expression.headersRead))
      assert.equal(check(request), false, JSON.stringify({ text, request }));
  }
  return { refused: count - taken, taken };
}
