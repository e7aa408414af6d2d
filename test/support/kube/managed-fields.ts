/**
 * Server-side apply: who owns which field, and what an apply does to an object. Fields are paths to leaves; a list is
 * one leaf (an API server merges some lists by key, which our manifests do not need: nobody else writes to our lists).
 */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };
export type Fields = { [name: string]: Json };

export interface ManagedFields {
  readonly manager: string;
  readonly operation: 'Apply' | 'Update';
  readonly fields: readonly string[];
}

/** Set only by the API server; nobody owns them. */
const systemFields = new Set(
  [
    'name',
    'namespace',
    'uid',
    'resourceVersion',
    'generation',
    'creationTimestamp',
    'deletionTimestamp',
    'managedFields',
  ]
    .map((field) => JSON.stringify(['metadata', field]))
    .concat(JSON.stringify(['apiVersion']), JSON.stringify(['kind'])),
);

export function leavesOf(value: Json, path: string[] = []): Map<string, Json> {
  const leaves = new Map<string, Json>();
  if (typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0) {
    for (const [name, inner] of Object.entries(value)) {
      for (const [leaf, it] of leavesOf(inner, [...path, name])) leaves.set(leaf, it);
    }
  } else if (!systemFields.has(JSON.stringify(path))) {
    leaves.set(JSON.stringify(path), value);
  }
  return leaves;
}

export function same(a: Json | undefined, b: Json | undefined): boolean {
  return JSON.stringify(sorted(a)) === JSON.stringify(sorted(b));
}

const isObject = (value: Json | undefined) =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function sorted(value: Json | undefined): Json | undefined {
  if (Array.isArray(value)) return value.map((it) => sorted(it) ?? null);
  if (typeof value !== 'object' || value === null) return value;
  const names = Object.keys(value).toSorted();
  return Object.fromEntries(names.map((name) => [name, sorted(value[name]) ?? null]));
}

export interface ApplyResult {
  readonly object: Fields;
  readonly managed: readonly ManagedFields[];
  /** Other managers that have other values for the fields, if the apply is not forced. */
  readonly conflicts: readonly string[];
}

export function applyFields(
  live: Fields,
  managed: readonly ManagedFields[],
  wanted: Fields,
  manager: string,
  isForced: boolean,
): ApplyResult {
  const object = structuredClone(live);
  const leaves = leavesOf(wanted);
  const own = managed.find((it) => it.manager === manager && it.operation === 'Apply')?.fields ?? [];
  const others = managed.filter((it) => !(it.manager === manager && it.operation === 'Apply'));
  const conflicts: string[] = [];
  for (const [leaf, value] of leaves) {
    const path = JSON.parse(leaf) as string[];
    if (same(read(object, path), value)) continue;
    // An empty object states only that the object exists, not its content.
    if (isObject(value) && isObject(read(object, path))) continue;
    conflicts.push(
      ...others.filter((it) => it.fields.includes(leaf)).map((it) => `${it.manager}: ${path.join('.')}`),
    );
    write(object, path, structuredClone(value));
  }
  if (conflicts.length > 0 && !isForced) return { object: live, managed, conflicts };
  // Fields that this manager no longer names are removed, unless another one names them.
  for (const leaf of own) {
    if (!leaves.has(leaf) && !others.some((it) => it.fields.includes(leaf)))
      remove(object, JSON.parse(leaf) as string[]);
  }
  const changed = new Set([...leaves.keys()].filter((leaf) => !same(at(live, leaf), at(object, leaf))));
  const rest = others.map((it) => ({ ...it, fields: it.fields.filter((leaf) => !changed.has(leaf)) }));
  return {
    object,
    managed: [
      ...rest.filter((it) => it.fields.length > 0),
      { manager, operation: 'Apply', fields: [...leaves.keys()].toSorted() },
    ],
    conflicts: [],
  };
}

/** After any other write: changed fields belong to the writer, removed ones to nobody. */
export function updatedFields(
  before: Fields,
  after: Fields,
  managed: readonly ManagedFields[],
  manager: string,
): readonly ManagedFields[] {
  const now = leavesOf(after);
  const changed = [...now].filter(([leaf, value]) => !same(at(before, leaf), value)).map(([leaf]) => leaf);
  const rest = managed.map((it) => ({
    ...it,
    fields: it.fields.filter((leaf) => now.has(leaf) && !changed.includes(leaf)),
  }));
  const own = rest.find((it) => it.manager === manager && it.operation === 'Update');
  const fields = [...new Set([...(own?.fields ?? []), ...changed])].toSorted();
  const others = rest.filter((it) => it !== own && it.fields.length > 0);
  return fields.length === 0 ? others : [...others, { manager, operation: 'Update', fields }];
}

/** JSON Merge Patch (RFC 7396). */
export function mergePatch(target: Json | undefined, patch: Json): Json {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch;
  const base = typeof target === 'object' && target !== null && !Array.isArray(target) ? { ...target } : {};
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete base[name];
    else base[name] = mergePatch(base[name], value);
  }
  return base;
}

const at = (object: Fields, leaf: string) => read(object, JSON.parse(leaf) as string[]);

function read(object: Json | undefined, path: readonly string[]): Json | undefined {
  let value = object;
  for (const name of path) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    value = value[name];
  }
  return value;
}

function write(object: Fields, path: readonly string[], value: Json): void {
  let parent = object;
  for (const name of path.slice(0, -1)) {
    const next = parent[name];
    if (typeof next !== 'object' || next === null || Array.isArray(next)) parent[name] = {};
    parent = parent[name] as Fields;
  }
  parent[path.at(-1) ?? ''] = value;
}

function remove(object: Fields, path: readonly string[]): void {
  const parent = read(object, path.slice(0, -1));
  if (typeof parent !== 'object' || parent === null || Array.isArray(parent)) return;
  delete parent[path.at(-1) ?? ''];
  // An object that becomes empty is removed too.
  if (Object.keys(parent).length === 0 && path.length > 1) remove(object, path.slice(0, -1));
}
