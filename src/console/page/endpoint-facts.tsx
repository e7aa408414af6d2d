/** What an endpoint is, beside its chart: its check, what happens to repeats and while the database is away, its size; and a test request. */
import type { JSX } from 'preact';
import type { SenderName, TestAnswer } from '../api.ts';
import { identifier, qualified } from '../quote.ts';
import { aboutText, sizeText } from '../visible-text.ts';
import { isTable, listReplacing } from '../retry-statements.ts';
import type { TableRef } from '../statements.ts';
import { readFacts } from '../endpoint-list.ts';
import { useAsked, useLoaded, useRows } from './load.ts';
import type { ResultRow } from './load.ts';
import { unlessAway, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { to } from './route.ts';
import { call } from './server.ts';
import type { CallOptions } from './server.ts';

export interface FactsOf {
  readonly row: ResultRow;
  /** By the role; otherwise it may only look. */
  readonly owned: boolean;
  readonly options: Readonly<Record<string, unknown>>;
  readonly secrets: readonly string[];
  /** null: an expression of its own, or no check. */
  readonly sender: SenderName | null;
  /** Reads it again, after it was changed. */
  readonly refresh: () => void;
}

/** Whose check this is, of a row of readFacts; null: an expression of its own, or none; undefined: not known yet. */
export function useSenderOf(row: ResultRow | undefined): SenderName | null | undefined {
  const check = {
    expression: row?.['expression'] ?? '',
    secrets: JSON.parse(row?.['aliases'] ?? '[]') as string[],
  };
  const load = async (options: Omit<CallOptions, 'body'>): Promise<readonly (SenderName | null)[]> =>
    row === undefined ? [] : call('which-sender', { ...options, body: { checks: [check] } });
  return useLoaded(row === undefined ? '' : JSON.stringify(check), load).value?.[0];
}

/** null: not loaded yet; `none`: there is no such table, or the role may not look at it. */
export function useFacts(of: TableRef): FactsOf | 'none' | null {
  const { value: rows, refresh } = useRows(readFacts(of), 15_000);
  const row = rows?.[0];
  const sender = useSenderOf(row);
  if (row === undefined) return rows === null ? null : 'none';
  const options = JSON.parse(row['options'] ?? '{}') as FactsOf['options'];
  const secrets = JSON.parse(row['aliases'] ?? '[]') as string[];
  return { row, owned: row['owned'] !== 'f', options, secrets, sender: sender ?? null, refresh };
}

interface FactsProps {
  readonly facts: FactsOf;
  readonly of: TableRef;
  /** In the range of the page. */
  readonly requests: number;
}

/** The statement that gives the table the check that it has, to be changed. */
function sameCheck(of: TableRef, { row, secrets, sender }: FactsOf): string {
  const names = secrets.length === 0 ? '' : ` SECRET ${secrets.map(identifier).join(', ')}`;
  const check = sender === null ? `AS ${row['expression'] ?? ''}` : `USING ${sender.id}`;
  return `ALTER TABLE ${qualified(of.schema, of.table)}\nVALIDATE${names} ${check}`;
}

function Twice({ of, options }: Pick<FactsProps, 'of'> & Pick<FactsOf, 'options'>): JSX.Element {
  const { dedupe, version } = options;
  const replacing = useRows(listReplacing(isTable(of))).value;
  if (typeof dedupe === 'string' && dedupe !== 'off') return <>stored once, by {dedupe}</>;
  if (typeof version === 'string') return <>stored once: only a newer one replaces its row</>;
  const key = replacing?.[0]?.['key'] ?? null;
  if (key === null) return <>{replacing === null ? '…' : 'stored again'}</>;
  return (
    <>
      replaces the row of its key, <Text of={key} max={130} />
    </>
  );
}

export function Facts({ facts, of, requests }: FactsProps): JSX.Element {
  const { row, owned, options, secrets, sender } = facts;
  const { spool, inspect, keep } = options as Readonly<Record<string, unknown>>;
  const check =
    row['expression'] === null ? (
      <b class="warn">none: open to anyone</b>
    ) : (
      <>
        {sender === null ? 'an expression of its own' : `${sender.name} signature`}
        {secrets.length === 0 ? null : (
          <>
            ,{' '}
            {owned ? (
              <a href={to(['secrets'], { q: secrets[0] ?? '' })}>
                <Text of={secrets.join(', ')} max={140} />
              </a>
            ) : (
              <Text of={secrets.join(', ')} max={140} />
            )}
          </>
        )}{' '}
        {owned ? <a href={to(['sql'], { sql: sameCheck(of, facts) })}>Change it</a> : null}
      </>
    );
  const facts2: readonly (readonly [string, JSX.Element | string])[] = [
    ['Check', check],
    ['A delivery sent twice', <Twice of={of} options={options} />],
    [
      'Bodies of accepted requests',
      <>
        {inspect === 'bodies' ? 'kept in memory' : 'not kept'}{' '}
        {owned ? <a href={to(['endpoint', of.schema, of.table, 'definition'])}>Change</a> : null}
      </>,
    ],
    [
      'If the database is away',
      spool === 'fallback' ? 'kept on disk, answered 202' : 'told to come again, 503',
    ],
    [
      'Rows',
      `${aboutText(row['rows_estimate'])}, ${row['bytes'] === null ? 'locked' : sizeText(Number(row['bytes']))}${typeof keep === 'string' ? `, kept ${keep}` : ''}`,
    ],
  ];
  return (
    <aside class="card facts">
      <dl>
        {facts2.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {owned ? null : <p class="faint">You may look at it; only its owner changes it.</p>}
      {owned && requests === 0 && sender !== null ? (
        <a
          href={to(['new', sender.id], { table: of.table, schema: of.schema === 'public' ? '' : of.schema })}
        >
          Nothing came yet: the steps at {sender.name}
        </a>
      ) : null}
    </aside>
  );
}

export function SendTest({
  of,
  facts: { row, owned, sender },
}: {
  readonly of: TableRef;
  readonly facts: FactsOf;
}) {
  const { answer, failure, ask } = useAsked<TestAnswer>();
  if (!owned || (row['expression'] !== null && sender === null)) return null;
  const body = { sender: sender?.id ?? '', secret: '', ...of };
  return (
    <div class="row-of">
      <button
        type="button"
        {...unlessAway(false, 'Stores a row')}
        onClick={() => ask(call<TestAnswer>('send', { body }))}
      >
        Send a test
      </button>
      {answer === null ? null : (
        <span role="status" title={answer.text}>
          Answered {answer.status}
        </span>
      )}
      {failure === null ? null : <Wrong failure={failure} />}
    </div>
  );
}
