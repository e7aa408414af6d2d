/**
 * The retry of all requests that match the filters, which Headgate runs in the background, even if the page is left: its progress and outcomes.
 * Can cancel it (`/console/api/retry`).
 */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { RetryState } from '../api.ts';
import { useLoaded } from './load.ts';
import { Badge, Wrong } from './components.tsx';
import type { RequestList } from './list-state.ts';
import { Text } from './text.tsx';
import { call } from './server.ts';
import type { Failure } from './server.ts';

interface ProgressProps {
  /** How many this page has begun. */
  readonly started: number;
  /** Shows what is retried. */
  readonly list: RequestList;
}

/** Shown at the bottom of the list until it has ended, and what came of the last one. */
export function RetryProgress({ started, list }: ProgressProps): JSX.Element | null {
  const state = useLoaded(`retry ${started}`, (options) => call<RetryState | null>('retry', options), 1_000);
  const [failure, setFailure] = useState<Failure | null>(null);
  useEffect(() => {
    if (state.value !== null) list.changed(state.value.kind !== 'running');
  }, [JSON.stringify(state.value)]);
  if (state.value === null) return null;
  return (
    <section class="card progress">
      <Progress state={state.value} />
      {state.value.kind === 'running' ? (
        <button
          type="button"
          onClick={() =>
            void call('retry-cancel', { body: {} }).then(state.reload, (error: unknown) =>
              setFailure(error as Failure),
            )
          }
        >
          Cancel the retry
        </button>
      ) : null}
      {failure === null ? null : <Wrong failure={failure} />}
    </section>
  );
}

const kinds = { running: 'plain', done: 'good', cancelled: 'warn', failed: 'bad' } as const;

function Progress({ state }: { readonly state: RetryState }): JSX.Element {
  const { kind, asked, total, said, outcomes, error } = state;
  return (
    <div role="status">
      <p>
        <Badge kind={kinds[kind]}>{kind}</Badge> {asked} of {total}{' '}
        <progress max={Math.max(1, total)} value={asked} aria-label="Asked for" />
      </p>
      {error === null ? null : (
        <p class="wrong">
          <Text of={error} max={1_000} />
        </p>
      )}
      <ul class="list">
        {outcomes.map(([word, count]) => (
          <li key={word}>
            <Outcome outcome={word} /> {count}
          </li>
        ))}
        {said.map(([words, count]) =>
          words.startsWith('waiting') ? null : (
            <li key={words}>
              {count} × <Text of={words} max={300} />
            </li>
          ),
        )}
      </ul>
    </div>
  );
}

export function Outcome({ outcome }: { readonly outcome: string | null }): JSX.Element | null {
  if (outcome === null) return null;
  if (outcome === 'committed') return <Badge kind="good">committed</Badge>;
  const waits = ['waiting', 'running'].includes(outcome);
  return <Badge kind={waits ? 'plain' : 'bad'}>{outcome}</Badge>;
}
