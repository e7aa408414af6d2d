/**
 * Applies a CustomResourceDefinition's schema as an API server does: unknown fields are dropped, everything else must
 * conform. CEL rules (x-kubernetes-validations) are not evaluated; the operator checks the same rules itself.
 */
export interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly required?: readonly string[];
  readonly enum?: readonly unknown[];
  readonly pattern?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly minProperties?: number;
  readonly 'x-kubernetes-preserve-unknown-fields'?: boolean;
  readonly 'x-kubernetes-int-or-string'?: boolean;
}

type Fields = Record<string, unknown>;

/** Returns the value without unknown fields; problems are added to `problems`. */
export function conform(value: unknown, schema: Schema, path: string, problems: string[]): unknown {
  const wrong = (what: string) => void problems.push(`${path}: ${what}`);
  if (schema['x-kubernetes-int-or-string'] === true) {
    if (!Number.isInteger(value) && typeof value !== 'string') wrong('must be an integer or a string');
  } else if (!isOfType(value, schema.type)) {
    wrong(`must be of type ${schema.type}`);
    return value;
  }
  if (schema.enum !== undefined && !schema.enum.includes(value))
    wrong(`must be one of ${schema.enum.join()}`);
  if (typeof value === 'string') text(value, schema, wrong);
  if (typeof value === 'number') {
    if (value < (schema.minimum ?? -Infinity)) wrong(`must be at least ${schema.minimum}`);
    if (value > (schema.maximum ?? Infinity)) wrong(`must be at most ${schema.maximum}`);
  }
  if (Array.isArray(value)) {
    if (value.length < (schema.minItems ?? 0)) wrong(`must have at least ${schema.minItems} items`);
    if (value.length > (schema.maxItems ?? Infinity)) wrong(`must have at most ${schema.maxItems} items`);
    const { items = {} } = schema;
    return value.map((item, index) => conform(item, items, `${path}[${index}]`, problems));
  }
  return typeof value === 'object' && value !== null
    ? fields(value as Fields, schema, path, problems)
    : value;
}

function text(value: string, schema: Schema, wrong: (what: string) => void): void {
  if (schema.pattern !== undefined && !new RegExp(schema.pattern).test(value))
    wrong(`must match ${schema.pattern}`);
  if (value.length < (schema.minLength ?? 0)) wrong(`must have at least ${schema.minLength} characters`);
  if (value.length > (schema.maxLength ?? Infinity))
    wrong(`must have at most ${schema.maxLength} characters`);
}

function fields(value: Fields, schema: Schema, path: string, problems: string[]): Fields {
  for (const name of schema.required ?? []) {
    if (!(name in value)) problems.push(`${path}.${name}: is required`);
  }
  if (Object.keys(value).length < (schema.minProperties ?? 0)) problems.push(`${path}: is empty`);
  const kept: Fields = {};
  for (const [name, inner] of Object.entries(value)) {
    const of = schema.properties?.[name] ?? schema.additionalProperties;
    if (of !== undefined) kept[name] = conform(inner, of, `${path}.${name}`, problems);
    // The API server itself checks objects without declared content (metadata).
    else if (schema['x-kubernetes-preserve-unknown-fields'] === true || schema.properties === undefined) {
      kept[name] = inner;
    }
  }
  return kept;
}

function isOfType(value: unknown, type: string | undefined): boolean {
  if (type === undefined) return true;
  if (type === 'integer') return Number.isInteger(value);
  if (type === 'array') return Array.isArray(value);
  if (type === 'object') return typeof value === 'object' && value !== null && !Array.isArray(value);
  return typeof value === type;
}
