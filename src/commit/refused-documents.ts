/**
 * Which documents the engine refuses, and why. Takes requests whose rows were refused; asks the engine in the group's session, without storing anything,
 * whether their table is at fault. Refuses with `body_not_json`, `row_refused`; with `table_changed` if it is.
 */
import type { Outcome, Rows } from '../types/rows.ts';
import type { Target } from '../types/target.ts';
import { refusal } from '../errors/refusals.ts';
import type { DocumentCopy } from './document-copy.ts';
import { aborted, isRightMissing, tableChangedBy, verdictOf } from './interpret-reply.ts';
import type { Failed } from './engine-reply.ts';
import { documentRefusal, forOwner } from './refusal-messages.ts';
import type { CommitSession } from './session.ts';
import { queryMessage } from './wire-message.ts';

/** The refused documents of one group. */
export class RefusedDocuments {
  readonly #session: CommitSession;
  readonly #target: Target;
  readonly #copy: Pick<DocumentCopy, 'takesNoRows'>;
  /** The first refusal checks whether the table is at fault. */
  #standing: Promise<Outcome | null> | null = null;

  constructor(session: CommitSession, target: Target, copy: Pick<DocumentCopy, 'takesNoRows'>) {
    this.#session = session;
    this.#target = target;
    this.#copy = copy;
  }

  /** The member whose row the engine has named is refused; nobody is because of a table that is no longer this one. */
  async sift(members: readonly Rows[], failed: Failed): Promise<readonly (Rows | Outcome)[]> {
    const instead = await this.#instead(failed);
    if (instead !== null) return members.map(() => instead);
    const named = verdictOf(failed) === 'row' ? namedBy(failed, this.#target, members) : null;
    if (named === null) return members;
    const outcome = { ...refusedBy(failed), row: named.row };
    return members.map((rows, place) => (place === named.place ? outcome : rows));
  }

  async explain(member: Rows, failed: Failed): Promise<Outcome> {
    const instead = await this.#instead(failed);
    if (instead !== null) return instead;
    if (isRightMissing(failed)) return tableChangedBy(failed);
    const named = verdictOf(failed) === 'row' ? namedBy(failed, this.#target, [member]) : null;
    return named === null ? refusedBy(failed) : { ...refusedBy(failed), row: named.row };
  }

  /** The outcome of all rows instead of a refusal of one. */
  async #instead(failed: Failed): Promise<Outcome | null> {
    if (failed.sqlstate === '23505' && (await hasNewKey(this.#session, this.#target)))
      return aborted(refusal('table_changed'));
    this.#standing ??= this.#copy.takesNoRows();
    return this.#standing;
  }
}

function refusedBy(failed: Failed) {
  return aborted(forOwner(documentRefusal(failed), failed));
}

/** The member whose row the engine's CONTEXT names, and which of its rows it is. A name that only looks like the text must not blame another row. */
function namedBy(
  { where }: Failed,
  { table }: Target,
  members: readonly Rows[],
): { readonly place: number; readonly row: number } | null {
  const prefix = `COPY ${table}, line `;
  const context = where.split('\n').find((it) => it.startsWith(prefix));
  const line = Number(/^\d{1,9}/.exec(context?.slice(prefix.length) ?? '')?.[0] ?? 0);
  let before = 0;
  for (const [place, { count }] of members.entries()) {
    if (line > before && line <= before + count) return { place, row: line - before - 1 };
    before += count;
  }
  return null;
}

/** Whether the table has a primary key now, usable by ON CONFLICT, that it did not have when its shape was read. */
export async function hasNewKey(session: CommitSession, { oid, shape }: Target): Promise<boolean> {
  const key =
    "pg_catalog.array_to_string((indkey::pg_catalog.int2[])[0:indnkeyatts operator(pg_catalog.-) 1], ' ')";
  const before = (shape.filledKey ?? []).join(' ');
  const has = `exists (select from pg_catalog.pg_index where indisprimary and indimmediate and ${key} operator(pg_catalog.<>) '${before}'
    and indrelid operator(pg_catalog.=) ${oid}::pg_catalog.oid)`;
  const sql = `select (case when ${has} then 'a key' else 'true' end)::pg_catalog.bool`;
  const [reply] = await session.send([queryMessage(sql)], [1]);
  return reply?.kind === 'failed' && reply.sqlstate === '22P02';
}
