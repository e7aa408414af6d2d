/**
 * How the owner of a table asks Headgate, in the transaction that stores its rows, to write what is Headgate's own: a row for headgate.request,
 * whose trigger does it, for tables of the role that asks (functions/actions.sql). Pure.
 */
import { quoteLiteral } from '../kit/sql-text.ts';
import { typeOids } from '../relations/shape.ts';
import { textOf } from './wire-message.ts';
import { stepOf } from './statement-step.ts';
import { toStatement } from './prepared-statements.ts';
import type { StatementStep } from './statement-step.ts';

const ask = toStatement('insert into headgate.request (action, given) values ($1, $2)', [
  typeOids.text,
  typeOids.jsonb,
]);

export function requestStep(action: 'claim' | 'advance', given: object): StatementStep {
  const parameters = [action, JSON.stringify(given)].map(textOf);
  return stepOf(ask, parameters);
}

/** The same as text. */
export function requestSql(action: 'claim' | 'advance', given: object): string {
  return `insert into headgate.request (action, given) values ('${action}', ${quoteLiteral(JSON.stringify(given))})`;
}
