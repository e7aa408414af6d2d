/**
 * What is answered to a statement of the console that failed. Takes errors of node-postgres and how a statement ended; returns SqlFailure with the
 * engine's own words, or Refused: `engine_unavailable`, `answer_too_large`. Pure.
 */
import type { DatabaseError } from 'pg';
import { limits } from '../config/limits.ts';
import { isConnectionLost } from '../engine/sqlstate.ts';
import { Refused, SqlFailure } from '../errors/refusals.ts';
import type { ReadEnd } from './sql-query.ts';

/** `write`: it may have taken effect. */
export function failedEnd(end: Exclude<ReadEnd, { readonly kind: 'done' }>, write: boolean): Error {
  switch (end.kind) {
    case 'failed':
      return failureOf(end.error);
    case 'too_large':
      return new Refused(
        'answer_too_large',
        write ? 'the answer is larger than 8 MiB; the statement may have taken effect' : undefined,
      );
    case 'copying':
      return new SqlFailure({
        sqlstate: '0A000',
        message: 'COPY … FROM STDIN and TO STDOUT are not possible here',
      });
    case 'late': {
      const message = `the statement ran longer than ${limits.consoleStatementMs / 1_000} s and was cancelled`;
      return new SqlFailure({ sqlstate: '57014', message });
    }
  }
}

export function failureOf(error: unknown): Error {
  if (error instanceof Refused || error instanceof SqlFailure) return error;
  const { code, message, severity, detail, hint, position } = error as DatabaseError;
  // node-postgres' own error if a password is required and none was given, or the server does not know it.
  if (message.startsWith('SASL'))
    return new SqlFailure({ sqlstate: '28P01', message: 'password authentication failed' });
  // An error without severity is not from the engine: the connection was refused or lost, or it is a bug.
  if (severity === undefined || code === undefined) {
    const lost =
      code !== undefined ||
      /^(?:Connection terminated|Client has encountered|Client was closed|timeout expired|the connection was lost)/.test(
        message,
      );
    return lost || !(error instanceof Error) ? new Refused('engine_unavailable') : error;
  }
  if (isConnectionLost(error)) return new Refused('engine_unavailable');
  return new SqlFailure({
    sqlstate: code,
    message,
    ...(detail === undefined ? {} : { detail }),
    ...(hint === undefined ? {} : { hint }),
    ...(position === undefined ? {} : { position: Number(position) }),
  });
}
