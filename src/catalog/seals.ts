/**
 * What is sealed in the catalog, and under which identity. A check is sealed as a whole, as Headgate has parsed and
 * judged it: the other columns of its row may have been written by a role by hand, and are believed only if they say
 * the same. Pure; sealing and opening are passed in. Throws, never with a secret in the message.
 */
import type { AnswerText } from '../types/answers.ts';
import type { Sealing } from '../secrets/sealing.ts';

/** The identities that sealed texts are bound to. */
export const identities = {
  secret: (name: string, sealId: string) => `secret:${name}:${sealId}`,
  /** A SealedCheck. */
  check: (sealId: string) => `check:${sealId}`,
  /** A SealedAnswer. */
  answer: (sealId: string) => `answer:${sealId}`,
  /** headgate.acme */
  acme: (sealId: string) => `acme:${sealId}`,
  /** headgate.key_check */
  key: (sealId: string) => `key:${sealId}`,
};

export interface StoredCheck {
  /** The whole expression. */
  readonly expression: string;
  /** As shown. */
  readonly shown: string;
  /** The name under which it reads the body; null: it does not read the body. */
  readonly payload: string | null;
  /** The names of its secrets, in order. */
  readonly secrets: readonly string[];
}

/** `shown` is absent where the whole expression is shown. */
type SealedCheck = Omit<StoredCheck, 'shown'> & Partial<Pick<StoredCheck, 'shown'>>;

export function sealCheck(check: StoredCheck, sealId: string, { seal }: Pick<Sealing, 'seal'>): string {
  const { expression, shown, payload, secrets } = check;
  const sealed: SealedCheck = { expression, ...(shown !== expression && { shown }), payload, secrets };
  return seal(JSON.stringify(sealed), identities.check(sealId));
}

export interface SealedSecretRow {
  /** The secret's name inside the expression. */
  readonly alias: string;
  readonly name: string;
  readonly seal_id: string;
  readonly sealed: string;
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

/** A row of headgate.answer_rows. */
export interface AnswerRow {
  /** As shown. */
  readonly expression: string;
  readonly unchecked: boolean;
  readonly sealed: string;
  readonly seal_id: string;
  readonly secrets: readonly SealedSecretRow[];
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

/** By their names in the expression. Throws, naming the secret that does not open. */
export function openSecrets(
  rows: readonly SealedSecretRow[],
  { open }: Pick<Sealing, 'open'>,
): ReadonlyMap<string, string> {
  const secrets = new Map<string, string>();
  for (const { alias, name, seal_id, sealed } of rows) {
    try {
      secrets.set(alias, open(sealed, identities.secret(name, seal_id)));
    } catch (error) {
      throw new Error(`secret ${name}: ${(error as Error).message}`, { cause: error });
    }
  }
  return secrets;
}
