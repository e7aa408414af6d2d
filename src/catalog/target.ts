/**
 * A webhook table as requests meet it. Pure: takes a row of the catalog and a compiler, returns a Target. A table whose check cannot be
 * compiled, or whose columns no longer fit what it was created for, is unusable: its requests are answered 503, never accepted unchecked, and
 * never stored in another form.
 */
import type { RequestCheck } from '../types/request.ts';
import type { Include, Intake, SnsTopics, SpoolChoice, Target } from '../types/target.ts';
import type { Shape } from '../types/shape.ts';
import { makeAnswers, noAnswers } from './answers.ts';
import { makeCheck, StillToLearn } from './table-compiler.ts';
import type { CompiledCheck, Compiles } from './table-compiler.ts';
import { shapeOf, unusableShape } from './target-shape.ts';
import { dedupeOf } from '../types/table-options.ts';
import type { Dedupe } from '../types/table-options.ts';
import type { Into } from '../types/into.ts';
import { openSecrets } from './seals.ts';
import { parseSubscriptions, parseTopics, readMessage, topicOf } from '../senders/sns-topics.ts';
import { formatOf } from './catalog-rows.ts';
import type { CatalogRow } from './catalog-rows.ts';
import { toCode } from '../relations/shape.ts';

/** Headers that carry credentials, whatever headers the table's check reads. */
const credentialHeaders = ['authorization', 'cookie', 'proxy-authorization'];

function unknownOf({ options, collect }: CatalogRow): Intake['unknown'] {
  if (options['on_unknown'] === 'collect' && collect !== null) return { into: collect };
  return options['on_unknown'] === 'reject' ? 'reject' : 'ignore';
}

/** `unusable`: why its requests are answered 503; `unanswering`: why its ANSWER cannot be used; null: it can be. */
export function toTarget(
  database: string,
  row: CatalogRow,
  compiler: Compiles,
): { target: Target; unusable: string | null; unanswering: string | null } {
  const shape = shapeOf(row);
  const code = toCode(row, compiler);
  let unusable = typeof shape === 'string' ? shape : typeof code === 'string' ? code : null;
  let compiled: CompiledCheck | null = null;
  let learns = false;
  const sns = snsOf(row, compiler);
  let dedupe: Dedupe | undefined;
  let into: Into | undefined;
  if (unusable === null) {
    try {
      compiled = makeCheck(row, compiler);
      into = intoOf(row, compiler);
      dedupe = into === undefined ? (dedupeOf(row.options) ?? undefined) : undefined;
      if (sns !== undefined && compiled !== null)
        compiled = { ...compiled, check: ofTopics(compiled.check, sns) };
    } catch (error) {
      unusable = error instanceof Error ? error.message : String(error);
      learns = error instanceof StillToLearn;
    }
  }
  const { schema_name: schema, table_name: table, relation: oid } = row;
  const usable = typeof shape === 'string' ? unusableShape(row.version) : shape;
  const answers = unusable === null || learns ? makeAnswers(row, compiler) : noAnswers;
  return {
    unanswering: answers.problem,
    target: {
      database,
      schema,
      table,
      oid,
      check: unusable === null ? (compiled?.check ?? null) : 'unusable',
      fetchedKeys: compiled?.fetchedKeys,
      readsEncodedBody: compiled?.readsEncodedBody,
      whyRefused: compiled?.why,
      sender: compiled?.sender,
      answers: answers.made ?? undefined,
      waitsForDisk: row.options['webhook.wait_for_persistence'] !== false,
      hasLocks: true,
      shape: usable,
      code:
        typeof code === 'string'
          ? { ...nobodys, owner: row.code.owner, ownerName: row.code.owner_name }
          : { ...code, functionsIn: 'headgate' },
      intake: {
        format: formatOf(row.options),
        files: row.options['form_files'] === 'content' ? 'content' : undefined,
        replaces: row.options['on_unstorable'] === 'replace',
        batched: row.options['is_batched'] === true,
        document: row.takes_document ? row.document : null,
        unknown: unknownOf(row),
        includes: includesOf(row, usable),
        hiddenHeaders: hiddenHeaders(compiled),
      },
      methods: methodsOf(row),
      spool: spoolOf(row),
      dedupe,
      sns,
      eventGrid: parseSubscriptions(row.options['event_grid_subscriptions']) ?? undefined,
      inspected: row.options['inspect'] === 'bodies',
      reconciled: (row.options['reconcile'] ?? 'off') !== 'off',
      into,
    },
    unusable,
  };
}

function intoOf({ target }: CatalogRow, compiler: Compiles): Into | undefined {
  if (target === undefined || target === null) return undefined;
  if (target.allowed !== true)
    throw new Error(`its owner may not use the secret "${target.name}", which says where its rows go`);
  const [value = ''] = openSecrets([{ ...target, alias: target.name }], compiler).values();
  return compiler.destination(value, target.trusted);
}

export function snsOf({ options, secrets }: CatalogRow, compiler: Compiles): SnsTopics | undefined {
  const { sns_topics: given } = options;
  const topics = typeof given === 'string' ? parseTopics(given) : null;
  const [first] = secrets;
  if (topics === null || first === undefined) return undefined;
  try {
    const [value = ''] = openSecrets([first], compiler).values();
    return { topics, secret: { name: first.name, sealId: first.seal_id, value } };
  } catch {
    // It does not open, which makes the table unusable.
    return undefined;
  }
}

/** The signature proves that the message comes from SNS; the topic says whose it is. */
export function ofTopics(check: RequestCheck, { topics }: SnsTopics): RequestCheck {
  return (request) => check(request) && topicOf(readMessage(request.body), topics) !== null;
}

export function methodsOf({ options }: CatalogRow): Target['methods'] {
  const { methods } = options;
  return typeof methods === 'string' && methods !== 'POST' ? new Set(methods.split(', ')) : undefined;
}

function spoolOf({ options }: CatalogRow): SpoolChoice {
  const { spool } = options;
  const mode = spool === 'off' || spool === 'fallback' ? spool : null;
  return { mode, status: options['spool_status'] === '200' ? 200 : 202 };
}

/** For a table of which only the name is known or may be used. */
export function unusableTarget(name: Pick<Target, 'database' | 'schema' | 'table' | 'oid'>): Target {
  return {
    ...name,
    check: 'unusable',
    waitsForDisk: true,
    hasLocks: true,
    shape: unusableShape(''),
    code: { ...nobodys, owner: 0, ownerName: '' },
    intake: {
      format: 'json',
      batched: false,
      document: null,
      unknown: 'ignore',
      includes: [],
      hiddenHeaders: null,
    },
  };
}

/** Nothing is stored. */
const nobodys = {
  as: 'owner',
  deletesAs: 'owner',
  inert: false,
  schemaTrusted: false,
  writer: '',
  functionsIn: 'headgate',
} as const;

/** Only columns that can be written: one may have become an identity. */
function includesOf(row: CatalogRow, { columns }: Shape): readonly Include[] {
  return row.includes
    .filter(({ column }) => columns.some(({ name }) => name === column))
    .map(({ what, header, column }) =>
      what === 'header' ? { what, header: header ?? '', column } : { what, column },
    );
}

function hiddenHeaders(compiled: CompiledCheck | null): ReadonlySet<string> | null {
  if (compiled?.headers === null) return null;
  return new Set([...credentialHeaders, ...(compiled?.headers ?? [])]);
}
