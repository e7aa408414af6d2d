/**
 * Options that are lists of names: private, the columns that no request fills, whatever its keys; readers, the roles that may look at refused
 * requests. Refuses with StatementError. Pure.
 */
import { quoteIdentifier } from '../kit/sql-text.ts';
import { StatementError } from './cursor.ts';
import type { Option } from './options.ts';

/** As a JSON array. */
export const privateOf = (option: Option): string =>
  JSON.stringify(namesOf(option, 'a list of columns', "private = 'done_at, attempts'"));

/** As in SQL. */
export const readersOf = (option: Option): string =>
  namesOf(option, 'a list of roles', "readers = 'agent, support'")
    .map((it) => (/^[a-z_][a-z0-9_]*$/.test(it) ? it : quoteIdentifier(it)))
    .join(', ');

/** Names as in SQL, with commas between them; an empty text: none. */
function namesOf({ name: option, value, valueAt }: Option, what: string, example: string): string[] {
  const names: string[] = [];
  const name = /\s*(?:"((?:[^"\0]|"")+)"|([\p{L}_][\p{L}\p{N}_$]*))\s*(,|$)/uy;
  for (let follows = value.trim() === '' ? '' : ','; follows === ',';) {
    const [, quoted, plain, next] = name.exec(value) ?? [];
    if (next === undefined)
      throw new StatementError('22023', `${option} is ${what}`, valueAt, {
        hint: `The form is: ${example}.`,
      });
    const it = quoted?.replaceAll('""', '"') ?? plain?.toLowerCase() ?? '';
    if (names.includes(it)) throw new StatementError('42701', `${option} has "${it}" twice`, valueAt);
    names.push(it);
    follows = next;
  }
  return names;
}
