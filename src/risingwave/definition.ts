/**
 * What only the definition of a RisingWave table says: which columns have a default, and what happens to a row whose key already
 * exists. Takes `rw_catalog.rw_relations.definition`, which RisingWave prints itself; what is not understood is taken for the
 * default. Pure. Source: parse_create_table in src/sqlparser/src/parser.rs of its repository.
 */

export interface Definition {
  /** Columns that are filled by a default if a statement does not name them. */
  readonly defaults: ReadonlySet<string>;
  /** `other`: parts of the row, or by version. */
  readonly conflict: 'update' | 'ignore' | 'other';
}

const token = /'(?:[^']|'')*'|"(?:[^"]|"")*"|[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*|\S/g;

export function parseDefinition(sql: string): Definition {
  const tokens: readonly string[] = sql.match(token) ?? [];
  const open = tokens.indexOf('(');
  const defaults = new Set<string>();
  let depth = 0;
  let column = '';
  let at = open;
  for (; at >= 0 && at < tokens.length; at++) {
    const it = tokens[at] ?? '';
    if (it === '(' || it === '<' || it === '[') depth++;
    else if (it === ')' || it === '>' || it === ']') depth--;
    if (depth === 0) break;
    if (depth !== 1) continue;
    if (it === '(' || it === ',') column = nameOf(tokens[at + 1] ?? '');
    else if (it.toLowerCase() === 'default') defaults.add(column);
  }
  const rest = tokens
    .slice(at + 1)
    .join(' ')
    .toLowerCase();
  return { defaults, conflict: conflictOf(rest) };
}

function nameOf(it: string): string {
  return it.startsWith('"') ? it.slice(1, -1).replaceAll('""', '"') : it.toLowerCase();
}

function conflictOf(rest: string): Definition['conflict'] {
  if (/\bwith version column\b/.test(rest)) return 'other';
  const [, how = 'overwrite'] =
    /\bon conflict (do nothing|ignore|overwrite|do update full|\w+ \w+)/.exec(rest) ?? [];
  if (how === 'do nothing' || how === 'ignore') return 'ignore';
  return how === 'overwrite' || how === 'do update full' ? 'update' : 'other';
}
