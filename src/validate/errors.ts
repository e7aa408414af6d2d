/** A VALIDATE expression that is refused when the table is created: what is wrong, where, and what to write instead. */
export class ExpressionError extends Error {
  readonly sqlstate: string;
  /** 0-based index into the expression's text, in JavaScript string units; null: no single place. */
  readonly position: number | null;
  readonly hint?: string;
  readonly detail?: string;

  constructor(
    sqlstate: string,
    message: string,
    position: number | null,
    more: { hint?: string; detail?: string } = {},
  ) {
    super(message);
    this.name = 'ExpressionError';
    this.sqlstate = sqlstate;
    this.position = position;
    if (more.hint !== undefined) this.hint = more.hint;
    if (more.detail !== undefined) this.detail = more.detail;
  }
}

/**
 * An evaluation that raised an error: the request is refused. `exact` says that PostgreSQL raises an error there, too;
 * if it is false, PostgreSQL may return a value for an input that is too exotic to be reproduced here, and refusing is
 * the safe interpretation.
 */
export class EvaluationError extends Error {
  readonly sqlstate: string;
  readonly exact: boolean;

  constructor(sqlstate: string, message: string, exact = true) {
    super(message);
    this.name = 'EvaluationError';
    this.sqlstate = sqlstate;
    this.exact = exact;
  }
}

export function unsupported(message: string): EvaluationError {
  return new EvaluationError('0A000', message, false);
}

export function outOfRange(type: string): EvaluationError {
  return new EvaluationError('22003', `${type} out of range`);
}

export function invalidInput(type: string): EvaluationError {
  return new EvaluationError('22P02', `invalid input syntax for type ${type}`);
}
