/**
 * What comes before anything of a table runs in Headgate's own session: a lock, which runs no code, and under it the
 * question whether the table's owner is still the one that the catalog knew, and still one that could do all that
 * Headgate's role can. Without the lock the owner could change between question and row. Pure: takes a target, returns steps.
 */
import { joinsTrustedSql, lookedIntoSql, ownersSql, trustedSql } from '../catalog/owner-code.ts';
import { quoteLiteral, relationName } from '../kit/sql-text.ts';
import type { Code, Target } from '../types/target.ts';
import { toStatement } from './prepared.ts';
import type { Statement } from './prepared.ts';
import { typeOids } from './statements.ts';
import { executeMessages, parseMessage } from './wire-message.ts';
import type { Parameter } from './wire-message.ts';

/**
 * Conflicts with every change of the table's owner, triggers, rules and columns. `ONLY`: for a partitioned table with very
 * many partitions the engine has no room for a lock on each.
 */
export function lockSql(target: Target, mode: LockMode = 'row exclusive'): string {
  return `lock table only ${relationName(target)} in ${mode} mode`;
}

/** `share update exclusive` also conflicts with CREATE STATISTICS and CREATE INDEX CONCURRENTLY; and with VACUUM, so it is for few. */
type LockMode = 'row exclusive' | 'share update exclusive';

/** 22P02 if planning a statement that reads the table would run expressions of its owner. */
export function noStatisticsSql({ oid: id }: Target): string {
  return (
    `select (case when exists (select from pg_catalog.pg_statistic_ext s where s.stxrelid operator(pg_catalog.=) ${id}::pg_catalog.oid ` +
    `and s.stxexprs is not null) then 'table_changed' else 'true' end)::pg_catalog.bool`
  );
}

/**
 * As lockSql, for the extended protocol, in whose implicit transactions LOCK TABLE is not allowed. It is not prepared: a
 * connection's prepared statements are kept for those that take longer to parse.
 */
export function lockMessages(target: Target, mode: LockMode = 'row exclusive'): Buffer[] {
  const block = `begin ${lockSql(target, mode)}; end`;
  return [parseMessage('', `do language plpgsql ${quoteLiteral(block)}`, []), ...executeMessages('', [])];
}

/** Only the table itself takes part in storing its rows, and it runs no code. */
export function isPlain({ inert, joined }: Pick<Code, 'inert' | 'joined'>): boolean {
  return inert && !joined;
}

/** 22P02 with `table_changed` if the name means another table, or the owner is another one or no longer trusted. */
export function heldSql(
  code: Pick<Code, 'inert' | 'joined'>,
  name: string,
  oid: string,
  owner: string,
): string {
  const same =
    `pg_catalog.to_regclass(${name}) operator(pg_catalog.=) ${oid} and ` +
    `exists (select from pg_catalog.pg_class c where c.oid operator(pg_catalog.=) ${oid} ` +
    `and c.relowner operator(pg_catalog.=) ${owner})`;
  const trusted = code.inert
    ? `${trustedSql(owner)}${code.joined ? ` and ${joinsTrustedSql(oid)}` : ''}`
    : `not exists (select from (${ownersSql(lookedIntoSql(oid, 'keyed'))}) as o where not ${trustedSql('o.relowner')})`;
  return `(case when ${same} and ${trusted} then 'true' else 'table_changed' end)::pg_catalog.bool`;
}

/** The number of the transaction, in case the answer to its commit is lost. */
export const numberSql = `pg_catalog.concat('xid ', pg_catalog.pg_current_xact_id())`;

const { text, oid: oidType } = typeOids;
const held = (code: Parameters<typeof heldSql>[0]) =>
  toStatement(`select ${heldSql(code, '$1', '$2', '$3')}`, [text, oidType, oidType]);
const ofPlain = held({ inert: true, joined: false });
const ofJoined = held({ inert: true, joined: true });
const ofOthers = held({ inert: false, joined: false });

export function heldStatement({ code }: Target): Statement {
  if (!code.inert) return ofOthers;
  return code.joined ? ofJoined : ofPlain;
}

/** Lock, question and number in one, if the database has the schema `headgate`; fails with HG001 in the same cases. */
export const holdStatement = toStatement(`select headgate.hold($1, $2, $3)`, [text, oidType, oidType]);

export function holdMessages(target: Target, name = holdStatement.name): Buffer[] {
  return executeMessages(name, names(target));
}

const holdInertIn = (schema: 'headgate' | 'headgate_functions') =>
  toStatement(`select ${schema}.hold_inert($1, $2, $3)`, [text, oidType, text]);
const holdsInert = {
  headgate: holdInertIn('headgate'),
  headgate_functions: holdInertIn('headgate_functions'),
};

/** The same for a table that runs no code: lock, trust in the owner, and number. Whether it is the right table, staysStatement asks. */
export function holdInert({ code }: Target): Statement {
  return holdsInert[code.functionsIn ?? 'headgate'];
}

export function holdInertMessages(target: Target, name = holdInert(target).name): Buffer[] {
  // The last one, `patience`, is of earlier versions, which may share the database.
  const asked = [relationName(target), String(target.code.owner), ''];
  return executeMessages(name, asked.map(textOf));
}

/**
 * Asks what `confirm` asks, about a table that is held: the answer is true until COMMIT. The engine evaluates it when it plans the
 * statement, and it plans a statement again when a relation in it has changed; otherwise this costs only the round through the executor.
 */
export function staysStatement(target: Target): Statement {
  return toStatement(`select ${staysSql(target)}, ${target.oid}::pg_catalog.oid::pg_catalog.regclass`, []);
}

/** The question alone, for a statement that names the relation in another way. */
export function staysSql({ schema, table, oid, shape, code }: Target): string {
  const name = quoteLiteral(relationName({ schema, table }));
  return `${code.functionsIn ?? 'headgate'}.stays(${name}, ${oid}, ${quoteLiteral(shape.version)}, ${code.owner})`;
}

/**
 * The question as the beginning of a statement that stores rows `from asked`. PostgreSQL locks the table that it stores into, plans this
 * query, and then the rest, with the defaults that a new owner may have given to a column.
 */
export function askedFirstSql(target: Target): string {
  return `with asked as materialized (select where ${staysSql(target)})`;
}

/** What comes before rows that are stored by a prepared statement. */
export interface Hold {
  readonly statements: readonly Statement[];
  readonly messages: readonly Buffer[];
  /** How many statements are executed, and which of them check the table, from 0. */
  readonly count: number;
  readonly checks: readonly number[];
}

/** The number is sent with the engine's next answer in between, which a COPY has. `stays`: the table's staysStatement. */
export function holdAndLook(target: Target, stays: Statement): Hold {
  const messages = [...holdInertMessages(target), ...executeMessages(stays.name, [])];
  return { statements: [holdInert(target), stays], messages, count: 2, checks: [0, 1] };
}

/** The execution of heldStatement. */
export function heldMessages(name: string, target: Target): Buffer[] {
  return executeMessages(name, names(target));
}

function names(target: Target): Parameter[] {
  return [relationName(target), String(target.oid), String(target.code.owner)].map(textOf);
}

/** Fires what waits for COMMIT, now. In a block, because PostgreSQL warns of SET CONSTRAINTS in an implicit transaction. */
export const fireSql = `do language plpgsql 'begin set constraints all immediate; end'`;

/** heldSql as text, for a group's simple query, or after rows: parsed anew. */
export function heldTextSql(target: Target): string {
  const of = (id: number) => `${id}::pg_catalog.oid`;
  const name = quoteLiteral(relationName(target));
  return `select ${heldSql(target.code, name, of(target.oid), of(target.code.owner))}`;
}

export function textOf(value: string): Parameter {
  return { format: 0, value: Buffer.from(value) };
}
