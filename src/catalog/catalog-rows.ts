/** The rows of Headgate's own catalog, one per webhook table. */
import type { Include, Intake } from '../types/target.ts';
import type { AnswerRow, SealedSecretRow } from './seals.ts';
import type { RelationRow } from '../relations/relations-sql.ts';

/** A table's row of the view headgate.catalog_rows, and its shape. */
export interface CatalogRow extends RelationRow {
  /** The name under which the expression reads the body's bytes. */
  readonly payload: string;
  readonly options: Readonly<Record<string, unknown>>;
  /** The body goes into one column as a whole … */
  readonly takes_document: boolean;
  /** … this one; null: it no longer exists. */
  readonly document: string | null;
  /** The column that takes members whose keys are not columns; null: none was chosen, or it no longer exists. */
  readonly collect: string | null;
  readonly includes: readonly IncludeRow[];
  /** Columns that no request fills; absent in what an older Headgate has kept: none. */
  readonly private?: readonly string[];
  /** As shown: masked if it holds a key; null: no VALIDATE. */
  readonly expression: string | null;
  /** The authoritative expression, see seals.ts. */
  readonly sealed_expression: string | null;
  readonly seal_id: string | null;
  readonly secrets: readonly SealedSecretRow[];
  /** The secret that says where the rows go; null, or absent in what an older Headgate has kept: the rows stay here. */
  readonly target?: (Omit<SealedSecretRow, 'alias'> & Standing) | null;
  /** Its ANSWER clauses, in order. */
  readonly answers: readonly AnswerRow[];
}

/** `trusted`: the secret is a superuser's; `allowed`: the table's owner may use it, absent in what an older Headgate has kept. */
interface Standing {
  readonly trusted: boolean;
  readonly allowed?: boolean;
}

interface IncludeRow {
  readonly what: Include['what'];
  readonly header: string | null;
  readonly column: string;
}

/** A secret as it is committed. `usable`: by the role that asks. */
export interface FoundSecret extends Omit<SealedSecretRow, 'alias'> {
  readonly id: string;
  readonly version: string;
  readonly owner: string | null;
  readonly usable: boolean;
}

/** A webhook table that is not read. */
export interface UnreadRow {
  readonly relation: number;
  readonly schema_name: string;
  readonly table_name: string;
  /** `locked`: somebody has locked it; another text: the engine fails to read it, with this reason; absent: it is too large. */
  readonly why?: string;
}

export function formatOf({ format }: Readonly<Record<string, unknown>>): Intake['format'] {
  return format === 'form' || format === 'text' || format === 'bytes' ? format : 'json';
}
