/**
 * What is sealed in the catalog, and under which identity. A check is sealed as a whole, as Headgate has compiled and
 * judged it: the other columns of its row may have been written by a role by hand, and are believed only if they say
 * the same. Pure; sealing and opening are passed in. Throws, never with a secret in the message.
 */
import type { AnswerText } from '../types/answers.ts';
import type { Sealing } from '../secrets/sealing.ts';
import { quoteLiteral } from '../kit/sql-text.ts';

/** The identities that sealed texts are bound to. */
export const identities = {
  secret: (name: string, sealId: string) => `secret:${name}:${sealId}`,
  /** A SealedCheck. */
  check: (sealId: string) => `check:${sealId}`,
  /** A SealedAnswer. */
  answer: (sealId: string) => `answer:${sealId}`,
  /** The text of an expression alone, in catalogs up to version 2. */
  expression: (sealId: string) => `expression:${sealId}`,
  /** headgate.acme */
  acme: (sealId: string) => `acme:${sealId}`,
  /** headgate.key_check */
  key: (sealId: string) => `key:${sealId}`,
};

interface SealedCheck {
  /** The whole expression. */
  readonly expression: string;
  /** As shown; absent: the whole expression is shown. */
  readonly shown?: string;
  /** The name under which it reads the body; null: it does not read the body. */
  readonly payload: string | null;
  /** The names of its secrets, in order. */
  readonly secrets: readonly string[];
}

export interface StoredCheck {
  readonly expression: string;
  readonly shown: string;
  readonly payload: string | null;
  readonly secrets: readonly string[];
}

export function sealCheck(check: StoredCheck, sealId: string, { seal }: Pick<Sealing, 'seal'>): string {
  const { expression, shown, payload, secrets } = check;
  const sealed: SealedCheck = {
    expression,
    ...(shown === expression ? {} : { shown }),
    payload,
    secrets,
  };
  return seal(JSON.stringify(sealed), identities.check(sealId));
}

export interface CheckRow {
  readonly payload: string;
  readonly expression: string | null;
  readonly sealed_expression: string | null;
  readonly seal_id: string | null;
  readonly secrets: readonly { readonly alias: string }[];
}

/** The expression. Throws if the row is not what was sealed. */
export function openCheck(row: CheckRow, { open }: Pick<Sealing, 'open'>): string {
  if (row.sealed_expression === null || row.seal_id === null)
    throw new Error(
      'it was not written by Headgate, and is not believed: give it again with ALTER TABLE ... VALIDATE',
    );
  const sealed = JSON.parse(open(row.sealed_expression, identities.check(row.seal_id))) as SealedCheck;
  const same =
    (sealed.shown ?? sealed.expression) === row.expression &&
    (sealed.payload === null || sealed.payload === 'payload' || sealed.payload === row.payload) &&
    sealed.secrets.length === row.secrets.length &&
    sealed.secrets.every((name, index) => name === row.secrets[index]?.alias);
  if (!same)
    throw new Error('its row is not what Headgate has sealed: give it again with ALTER TABLE ... VALIDATE');
  return sealed.expression;
}

/** What `sealOldCheck` needs to know of a row that an older Headgate has left. */
export interface OldCheckRow extends CheckRow {
  readonly relation: number;
}

/** How many are sealed at a time. */
const oldChecksMax = 100;

export const oldChecksSql = (after: number): string => `
select w.relation::pg_catalog.oid as relation, w.payload, w.expression, w.sealed_expression, w.seal_id::pg_catalog.text, (
    select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('alias', b.alias) order by b.position), '[]')
    from headgate.webhook_table_secret b where b.relation = w.relation
  ) as secrets
from headgate.webhook_table w join headgate.catalog_sizes c on c.relation = w.relation::pg_catalog.oid and c.fits
where w.seal_form = 1 and w.expression is not null and w.relation::pg_catalog.oid > ${after}::pg_catalog.oid
order by w.relation::pg_catalog.oid limit ${oldChecksMax}`;

/** A statement that puts the check of a version 2 catalog under a current seal. Throws if the old seal does not open. */
export function sealOldCheck(
  row: OldCheckRow,
  sealId: string,
  sealing: Pick<Sealing, 'open' | 'seal'>,
): string {
  const { relation, payload, expression: shown, sealed_expression: sealed, seal_id: oldId, secrets } = row;
  if (shown === null) throw new Error('there is no expression');
  const expression = sealed === null ? shown : sealing.open(sealed, identities.expression(oldId ?? ''));
  const check = { expression, shown, payload, secrets: secrets.map(({ alias }) => alias) };
  const text = quoteLiteral(sealCheck(check, sealId, sealing));
  return `update headgate.webhook_table set sealed_expression = ${text}, seal_id = '${sealId}', seal_form = 2
    where relation = ${relation}::pg_catalog.oid::pg_catalog.regclass and seal_form = 1`;
}

/** One ANSWER clause, whole. */
export interface SealedAnswer extends AnswerText {
  /** The names of its secrets, in order. */
  readonly secrets: readonly string[];
  /** As shown. */
  readonly shown: string;
}

export function sealAnswer(answer: SealedAnswer, sealId: string, { seal }: Pick<Sealing, 'seal'>): string {
  return seal(JSON.stringify(answer), identities.answer(sealId));
}

export interface AnswerRow {
  /** As shown. */
  readonly expression: string;
  readonly unchecked: boolean;
  readonly sealed: string;
  readonly seal_id: string;
  readonly secrets: readonly { readonly alias: string }[];
}

/** Throws if the row is not what was sealed. */
export function openAnswer(row: AnswerRow, { open }: Pick<Sealing, 'open'>): SealedAnswer {
  const sealed = JSON.parse(open(row.sealed, identities.answer(row.seal_id))) as SealedAnswer;
  const same =
    sealed.shown === row.expression &&
    sealed.unchecked === row.unchecked &&
    sealed.secrets.length === row.secrets.length &&
    sealed.secrets.every((name, index) => name === row.secrets[index]?.alias);
  if (!same)
    throw new Error('its row is not what Headgate has sealed: give it again with ALTER TABLE ... ANSWER');
  return sealed;
}
