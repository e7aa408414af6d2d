/**
 * The option private: the columns that no request fills, whatever its keys. Returns their names as a JSON array; refuses with StatementError. Pure.
 */
import { StatementError } from './cursor.ts';
import type { Option } from './options.ts';

/** Names as in SQL, with commas between them; an empty text: none. */
export function privateOf({ value, valueAt }: Option): string {
  const names: string[] = [];
  const name = /\s*(?:"((?:[^"\0]|"")+)"|([\p{L}_][\p{L}\p{N}_$]*))\s*(,|$)/uy;
  for (let follows = value.trim() === '' ? '' : ','; follows === ',';) {
    const [, quoted, plain, next] = name.exec(value) ?? [];
    if (next === undefined)
      throw new StatementError('22023', 'private is a list of columns', valueAt, {
        hint: "The form is: private = 'done_at, attempts'.",
      });
    const it = quoted?.replaceAll('""', '"') ?? plain?.toLowerCase() ?? '';
    if (names.includes(it)) throw new StatementError('42701', `column "${it}" is private twice`, valueAt);
    names.push(it);
    follows = next;
  }
  return JSON.stringify(names);
}
