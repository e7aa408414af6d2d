/** An endpoint that was just created: its address, a request to try, and the first one that arrives, with its row. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { SenderInfo, SqlNotice, TestAnswer } from '../api.ts';
import { shellWord } from '../quote.ts';
import { newestRows } from '../newest-rows.ts';
import { isRefused } from '../outcomes.ts';
import type { NewEndpoint } from '../statements.ts';
import { urlOf } from './endpoints.tsx';
import { lines } from './live.ts';
import type { LiveLine } from './live.ts';
import { useAsked, useRowsIf } from './load.ts';
import { Badge, Code, Copy, Text, Wrong } from './parts.tsx';
import { Answered } from './resend.tsx';
import { to } from './route.ts';
import { call, me } from './server.ts';
import { Value } from './value.tsx';

interface Props {
  readonly sender: SenderInfo | null;
  readonly made: NewEndpoint;
  readonly notices: readonly SqlNotice[];
}

/** Of a table that was just made, which is small. */
const fresh = { column: null, nullable: false, indexed: false, bytes: 0, names: [] };

export function Waiting({ sender, made, notices }: Props): JSX.Element {
  const [began] = useState(() => lines.value.at(-1)?.n ?? 0);
  const ref = { schema: 'public', table: made.table };
  const url = urlOf(ref.schema, ref.table);
  const came = lines.value.filter(
    ({ n, schema, table }) => n > began && schema === ref.schema && table === ref.table,
  );
  const stored = came.find(({ code }) => code === 'committed');
  const refused = came.filter(isRefused);
  const row = useRowsIf(stored === undefined ? null : newestRows(ref, fresh, 1)).value?.[0];
  return (
    <div class="form">
      <h2>
        <Badge kind="good">created</Badge> <Text of={made.table} max={80} />
      </h2>
      {notices.map((notice, i) => (
        <div key={i} class={notice.severity === 'WARNING' ? 'strip' : 'faint'}>
          <Text of={notice.message} /> {notice.hint === null ? null : <Text of={notice.hint} />}
        </div>
      ))}
      <div class="address">
        <code>
          <Text of={url} max={300} />
        </code>
        <Copy text={url} label="Copy URL" />
      </div>
      <Reachable />
      <Try sender={sender} made={made} url={url} />
      <section class="card" aria-live="polite">
        {stored === undefined ? (
          <p class="pulse">Waiting for the first request …</p>
        ) : (
          <Arrived line={stored} />
        )}
        {stored === undefined && refused.length > 0 ? (
          <p>
            <Badge kind="bad">{refused.at(-1)?.code}</Badge> {refused.length} arrived and{' '}
            {refused.length === 1 ? 'was' : 'were'} refused:{' '}
            <a href={to(['endpoint', ref.schema, ref.table, 'refused'])}>why?</a>
          </p>
        ) : null}
        {row?.['data'] === undefined || row['data'] === null ? null : <Value text={row['data']} />}
      </section>
      <a class="button" href={to(['endpoint', ref.schema, ref.table])}>
        Go to the endpoint
      </a>
    </div>
  );
}

function Arrived({ line }: { readonly line: LiveLine }): JSX.Element {
  return (
    <p class="verdict good" role="status">
      <Badge kind="good">{line.status}</Badge> Committed in{' '}
      {line.ms < 10 ? line.ms.toFixed(1) : Math.round(line.ms)} ms
    </p>
  );
}

/** Why a sender may not reach it. */
function Reachable(): JSX.Element | null {
  if (me.value === null || me.value.public) return null;
  return (
    <p class="strip">
      This is the address on this machine. For real requests open a tunnel or a proxy to it, and set
      HEADGATE_PUBLIC_URL to the address that senders call.
    </p>
  );
}

function Try({
  sender,
  made,
  url,
}: {
  readonly sender: SenderInfo | null;
  readonly made: NewEndpoint;
  readonly url: string;
}) {
  const { answer, failure, ask } = useAsked<TestAnswer>();
  const table = { schema: 'public', table: made.table };
  const body = { sender: sender?.id ?? '', secret: made.secret, ...table };
  const command =
    sender === null
      ? `curl -d '{"hello":"world"}' ${shellWord(url)}`
      : `headgate send ${sender.id} --secret '…' --url ${shellWord(url)}`;
  return (
    <>
      <Code text={command} />
      {sender?.paired === true ? null : (
        <div class="row-of">
          <button type="button" class="primary" onClick={() => ask(call<TestAnswer>('send', { body }))}>
            Send a test request
          </button>
          <span class="faint">
            {sender === null ? 'Stores a row.' : `Signed as ${sender.name} signs. Stores a row.`}
          </span>
        </div>
      )}
      {answer === null ? null : <Answered answer={answer} table={table} />}
      {failure === null ? null : <Wrong failure={failure} />}
    </>
  );
}
