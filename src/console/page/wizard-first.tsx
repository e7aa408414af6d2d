/**
 * The third step: waits for the first delivery and shows its row; until then what was refused, and why, and what the sender has asked. A test
 * delivery is signed as the sender signs, and taken away again.
 */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { TestAnswer } from '../api.ts';
import { deleteTest, readFirst, readQuestion, readRefusal } from '../new-endpoint.ts';
import { qualified, shellWord } from '../quote.ts';
import { Name, urlOf } from './address.tsx';
import { lines } from './live.ts';
import { useRows, useRowsIf } from './load.ts';
import type { ResultRow } from './load.ts';
import { Ago, Badge, Code, unlessAway, Wrong } from './components.tsx';
import { Text } from './text.tsx';
import { timeOf } from '../request-rows.ts';
import { to } from './route.ts';
import { call, run } from './server.ts';
import type { Failure } from './server.ts';
import { Value } from './value.tsx';
import type { CreatedTable } from './wizard-secret.tsx';
import type { ChosenSender } from './wizard-choose.tsx';

interface Props {
  readonly chosen: ChosenSender;
  readonly made: CreatedTable;
}

export function FirstDelivery({ chosen, made, came }: Props & { readonly came: () => void }): JSX.Element {
  const [testing, setTesting] = useState(false);
  const [first, setFirst] = useState<ResultRow | null>(null);
  const looked = useRowsIf(first === null && !testing ? readFirst(made, made.names) : null, 2_000);
  const refused = useRows(readRefusal(made), 5_000);
  const seen = lines.value.findLast((it) => it.schema === made.schema && it.table === made.table);
  const n = seen?.n ?? 0;
  useEffect(() => {
    // What arrives is looked at at once.
    if (n > 0 && first === null && !testing) looked.refresh();
    if (n > 0) refused.refresh();
  }, [n]);
  useEffect(() => {
    const row = looked.value?.[0];
    if (row === undefined || testing) return;
    setFirst(row);
    came();
  }, [looked.value, testing]);
  const refusal = refused.value?.[0];
  if (first !== null) return <Received chosen={chosen} made={made} row={first} />;
  return (
    <>
      <div class="row-of wrap" aria-live="polite">
        <span class="waiting-dot pulse" aria-hidden="true" />
        <div class="grow">
          <b>
            {refusal === undefined ? 'Nothing has arrived' : 'Nothing has been accepted'} at …/
            <Name of={made.table} /> yet. Waiting for the first request
            {refusal === undefined ? '' : ' that passes'} …
          </b>
          {refusal === undefined ? null : <Refusal made={made} chosen={chosen} row={refusal} />}
          <Handshake made={made} turn={n} />
        </div>
      </div>
      {looked.failure === null ? null : <Wrong failure={looked.failure} />}
      <Try chosen={chosen} made={made} testing={setTesting} />
    </>
  );
}

function Refusal({ made, chosen, row }: Props & { readonly row: ResultRow }): JSX.Element {
  const name = chosen.kind === 'sender' ? chosen.sender.name : 'The sender';
  const waits = made.waits && row['status'] === '401';
  return (
    <p class="strip" role="status">
      <Badge kind="bad">{row['status']}</Badge>{' '}
      {waits
        ? `A request came and was refused: the endpoint has not got ${name}’s secret yet. `
        : 'A request came and was refused: '}
      <Text of={sentenceOf(row['reason'] ?? '')} max={200} />{' '}
      <a href={to(['requests', `r${row['id']}`])}>Why?</a> <Ago at={timeOf(row['received_at'] ?? null)} />
    </p>
  );
}

/** Without the SQL behind it, which the request's own page explains. */
const sentenceOf = (reason: string): string => reason.split(': ').slice(0, 2).join(': ');

function Handshake({
  made,
  turn,
}: {
  readonly made: CreatedTable;
  readonly turn: number;
}): JSX.Element | null {
  const loaded = useRows(readQuestion(made), 5_000);
  useEffect(() => (turn > 0 ? loaded.refresh() : undefined), [turn]);
  const row = loaded.value?.[0];
  if (row === undefined) return null;
  return (
    <p class="verdict good" role="status">
      Its question was answered: <Badge kind="plain">{row['status']}</Badge>{' '}
      <Text of={row['outcome'] ?? ''} max={80} /> <Ago at={timeOf(row['asked_at'] ?? null)} />
    </p>
  );
}

type Tried =
  | { readonly kind: 'none' | 'running' }
  | { readonly kind: 'answered'; readonly answer: TestAnswer; readonly gone: boolean }
  | { readonly kind: 'failed'; readonly failure: Failure };

function Try({ chosen, made, testing }: Props & { readonly testing: (on: boolean) => void }): JSX.Element {
  const [tried, setTried] = useState<Tried>({ kind: 'none' });
  const url = urlOf(made.schema, made.table);
  const { schema, table } = made;
  const test = async (): Promise<void> => {
    setTried({ kind: 'running' });
    testing(true);
    try {
      const sender = chosen.kind === 'sender' ? chosen.sender.id : '';
      const answer = await call<TestAnswer>('send', { body: { sender, secret: '', schema, table } });
      const stored = answer.status === 200 && made.names.includes('raw') && answer.body !== undefined;
      if (stored) await run(deleteTest(made, answer.body ?? ''), true);
      setTried({ kind: 'answered', answer, gone: stored });
    } catch (error) {
      setTried({ kind: 'failed', failure: error as Failure });
    } finally {
      testing(false);
    }
  };
  if (chosen.kind === 'hmac')
    return (
      <p class="faint">
        Let your program send one. In a shell: the signature is that of{' '}
        <code>openssl dgst -{chosen.form.algorithm} -hmac</code>.
      </p>
    );
  const isPaired = chosen.kind === 'sender' && chosen.sender.paired;
  return (
    <>
      {isPaired ? (
        <p class="faint">{chosen.sender.name} signs with a private key, so only it can send a test.</p>
      ) : (
        <div class="row-of wrap">
          <button type="button" {...unlessAway(tried.kind === 'running')} onClick={() => void test()}>
            {chosen.kind === 'sender' ? `Send a test as ${chosen.sender.name} would` : 'Send a test request'}
          </button>
          <span class="faint">
            {made.names.includes('raw') ? 'It is stored, and taken away again.' : 'It stores a row.'}
          </span>
        </div>
      )}
      {tried.kind === 'answered' ? (
        <p class={tried.answer.status < 300 ? 'verdict good' : 'verdict bad'} role="status">
          The test was answered{' '}
          <Badge kind={tried.answer.status < 300 ? 'good' : 'bad'}>{tried.answer.status}</Badge>
          {tried.gone ? ', and its row was taken away again.' : '. '}
          {tried.answer.status < 300 ? null : <Text of={tried.answer.text} max={300} />}
        </p>
      ) : null}
      {tried.kind === 'failed' ? <Wrong failure={tried.failure} /> : null}
      {chosen.kind === 'anything' ? <Code text={`curl -d '{"hello":"world"}' ${shellWord(url)}`} /> : null}
    </>
  );
}

function Received({ chosen, made, row }: Props & { readonly row: ResultRow }): JSX.Element {
  const line = lines.value.find(
    ({ schema, table, code }) => schema === made.schema && table === made.table && code === 'committed',
  );
  const by =
    chosen.kind === 'sender'
      ? `Signed by ${chosen.sender.name}`
      : chosen.kind === 'hmac'
        ? 'Signed'
        : 'Not checked';
  const { event = null, data = null, received_at: arrived = null } = row;
  return (
    <>
      <div class="verdict good received" role="status">
        <div class="grow">
          <b>
            Received. {by}, stored
            {line === undefined ? '' : ` in ${line.ms < 10 ? line.ms.toFixed(1) : Math.round(line.ms)} ms`}.
          </b>
          <div>
            {event === null ? null : (
              <>
                <code>
                  <Text of={event} max={80} />
                </code>{' '}
              </>
            )}
            {line === undefined ? null : <>from {line.address} </>}
            {arrived === null ? null : <Ago at={timeOf(arrived)} />}
          </div>
        </div>
        <a class="button primary" href={to(['endpoint', made.schema, made.table])}>
          Go to the endpoint
        </a>
      </div>
      <div class="two even">
        <div>
          <h3>The row</h3>
          {data === null ? null : <Value text={data} />}
        </div>
        <Next made={made} />
      </div>
    </>
  );
}

function Next({ made }: { readonly made: CreatedTable }): JSX.Element {
  return (
    <div>
      <h3>Next</h3>
      <ul class="list">
        <li>
          <a data-row class="line" href={to(['endpoint', made.schema, made.table, 'rows'])}>
            <b>Turn values into columns</b>
            <br />
            <span class="faint">amounts, ids, types: proposals from this document</span>
          </a>
        </li>
        <li>
          <a
            data-row
            class="line"
            href={to(['sql'], {
              sql: `SELECT * FROM ${qualified(made.schema, made.table)} LIMIT 10`,
            })}
          >
            <b>Ask it in SQL</b>
            <br />
            <span class="faint">here, or in psql</span>
          </a>
        </li>
        <li>
          <a data-row class="line" href={to(['new'])}>
            <b>Another endpoint</b>
          </a>
        </li>
      </ul>
    </div>
  );
}
