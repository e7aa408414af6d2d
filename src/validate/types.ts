/** SQL types: their values in JavaScript, and when PostgreSQL converts one to another implicitly. */
import { type Decimal } from './numeric.ts';
import { type JsonValue } from './jsonb.ts';

/** The JavaScript value of each SQL type; SQL's NULL is null everywhere. */
export interface ValueOf {
  text: string;
  bytea: Buffer;
  jsonb: JsonValue;
  bool: boolean;
  int4: number;
  int8: bigint;
  numeric: Decimal;
  float8: number;
  /** Microseconds since 1970-01-01 00:00 UTC. */
  timestamptz: bigint;
  /** Microseconds; there are no months here, and the time zone is UTC, so a day is 86,400 s. */
  interval: bigint;
  'text[]': readonly (string | null)[];
}

export type TypeName = keyof ValueOf;
/** `unknown` is PostgreSQL's type of a bare string literal or NULL before its context has decided. */
export type StaticType = TypeName | 'unknown';
export type Value = ValueOf[TypeName] | null;

/** The names that PostgreSQL prints in its messages. */
export const printedType: Record<StaticType, string> = {
  text: 'text',
  bytea: 'bytea',
  jsonb: 'jsonb',
  bool: 'boolean',
  int4: 'integer',
  int8: 'bigint',
  numeric: 'numeric',
  float8: 'double precision',
  timestamptz: 'timestamp with time zone',
  interval: 'interval',
  'text[]': 'text[]',
  unknown: 'unknown',
};

/** pg_type.typcategory, and whether the type is the preferred one of its category. */
const categories: Record<TypeName, { readonly category: string; readonly preferred: boolean }> = {
  text: { category: 'S', preferred: true },
  bytea: { category: 'U', preferred: false },
  jsonb: { category: 'U', preferred: false },
  bool: { category: 'B', preferred: true },
  int4: { category: 'N', preferred: false },
  int8: { category: 'N', preferred: false },
  numeric: { category: 'N', preferred: false },
  float8: { category: 'N', preferred: true },
  timestamptz: { category: 'D', preferred: true },
  interval: { category: 'T', preferred: true },
  'text[]': { category: 'A', preferred: false },
};

export function categoryOf(type: TypeName): string {
  return categories[type].category;
}

export function isPreferred(type: TypeName): boolean {
  return categories[type].preferred;
}

const numericRank: Partial<Record<TypeName, number>> = { int4: 1, int8: 2, numeric: 3, float8: 4 };

/** Whether PostgreSQL converts `from` to `to` implicitly (pg_cast.castcontext = 'i'). */
export function coercesImplicitly(from: StaticType, to: TypeName): boolean {
  if (from === to || from === 'unknown') return true;
  const low = numericRank[from];
  const high = numericRank[to];
  return low !== undefined && high !== undefined && low < high;
}

/** The common type of CASE, COALESCE, GREATEST, IN …: PostgreSQL's select_common_type. null: there is none. */
export function commonType(types: readonly StaticType[]): TypeName | null {
  let chosen: TypeName | null = null;
  for (const type of types) {
    if (type === 'unknown' || type === chosen) continue;
    if (chosen === null) chosen = type;
    else if (categoryOf(type) !== categoryOf(chosen)) return null;
    else if (!isPreferred(chosen) && coercesImplicitly(chosen, type) && !coercesImplicitly(type, chosen)) {
      chosen = type;
    }
  }
  const common: TypeName = chosen ?? 'text';
  return types.every((type) => coercesImplicitly(type, common)) ? common : null;
}
