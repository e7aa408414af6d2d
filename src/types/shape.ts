/** How rows get into a table. Types only. */

/** How rows get into a table: what commit must know about it. */
export interface Shape {
  /**
   * The version of the table: its columns, and which of its parts run code. Compared inside the transaction that
   * stores the rows, so that no row enters a table of another shape.
   */
  readonly version: string;
  /**
   * `documents`: they go unchanged into the one column of `columns`, which is jsonb and has no key.
   * Otherwise each document is a JSON object whose keys are names of `columns`, and a row whose key already exists is
   * refused by the engine (`insert`), replaced (`upsert`: the last writer wins), or left alone (`ignore`).
   */
  readonly writeMode: 'documents' | 'insert' | 'upsert' | 'ignore';
  /** The columns that are written, in the table's order: neither generated ones nor those that only their default fills. */
  readonly columns: readonly Column[];
  /** The primary key, in its order; empty: none, or `filledKey`. */
  readonly key: readonly KeyColumn[];
  /**
   * The column that takes whole documents: its member is always present, and a JSON null in it is a document like any other.
   * If the column is of type JSON, the member is a string that holds the document's text. null: keys fill the columns.
   */
  readonly document: string | null;
  /** What happens to a value that does not fit its column: the request is refused, or NULL is stored and counted. */
  readonly onTypeError: 'reject' | 'null';
  /** pg_attribute.attnum of a primary key that no row names: each row is new. */
  readonly filledKey?: readonly number[];
  readonly distributedByCitus?: boolean;
  /** With `upsert`: a row replaces only one that is older. Absent: the last writer wins. */
  readonly newest?: Newest;
}

/** What says how new a row is: the option `version`. */
export interface Newest {
  /** The first decides, and the next one where it is equal. */
  readonly parts: readonly NewestPart[];
  /** A row of the same version replaces the row that is there. */
  readonly replacesEqual: boolean;
  /** The types of the key's columns, in its order. */
  readonly keyTypes: readonly number[];
}

export interface NewestPart {
  readonly column: string;
  /** pg_type.oid of what is compared; for a domain, that of its base type. */
  readonly type: number;
  /** Where in the JSONB column the value is; null: the column itself is the value. */
  readonly path: readonly string[] | null;
}

export interface Column {
  readonly name: string;
  /** As PostgreSQL prints it, qualified if it is not PostgreSQL's own: `numeric(10,2)`, `public.mood`. */
  readonly type: string;
  /** pg_type.oid; for a domain, that of its base type. */
  readonly baseType: number;
  /** The SQL expression that fills the column if a document lacks the key; null: NULL. */
  readonly fallback: string | null;
}

export interface KeyColumn {
  readonly name: string;
  /** A generated column of the key is not written; this is the SQL expression over `columns` that computes it. */
  readonly generated: string | null;
  /** How the key's index compares the column; absent: by PostgreSQL's own `=`. */
  readonly equality?: Equality;
}

export interface Equality {
  /** For OPERATOR(…): `pg_catalog.=`, `public.=`. */
  readonly operator: string;
  /** What both sides are cast to, so that no other operator of that name fits better; null: the operator takes many types. */
  readonly type: string | null;
}
