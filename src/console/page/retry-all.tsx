/**
 * A retry of all requests that match the filters: started once, and run by Headgate in the background, even if the page is left.
 * Shows its progress and outcomes, and can cancel it (`/console/api/retry`).
 */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import type { RetryState } from '../api.ts';
import { retryFiltered } from '../statements.ts';
import type { RefusedFilter } from '../statements.ts';
import { useLoaded } from './load.ts';
import { Badge, Sql, Text, Wrong } from './parts.tsx';
import { call } from './server.ts';
import type { Failure } from './server.ts';

export function RetryAll({ filter }: { readonly filter: RefusedFilter }): JSX.Element {
  const [force, setForce] = useState(false);
  const [asking, setAsking] = useState(false);
  const [failure, setFailure] = useState<Failure | null>(null);
  const state = useLoaded('retry', (options) => call<RetryState | null>('retry', options), 1_000);
  const running = state.value?.kind === 'running';
  const tell = (path: string, body: unknown): void => {
    setFailure(null);
    setAsking(false);
    call(path, { body }).then(state.reload, (error: unknown) => setFailure(error as Failure));
  };
  return (
    <section class="card">
      <h2>Retry all of them</h2>
      <p class="faint">
        All requests that match the filters, the oldest first, in the background. Those that VALIDATE did not
        accept can be stored only without their check, because their signatures were not kept.
      </p>
      <label>
        <input type="checkbox" checked={force} onChange={() => setForce(!force)} /> store unchecked ones, too
        (force)
      </label>
      <div class="action">
        <button
          type="button"
          class={asking ? 'danger' : 'plain'}
          disabled={running}
          onClick={() => (asking ? tell('retry', { filter, force }) : setAsking(true))}
        >
          {asking ? (force ? 'Store them unchecked?' : 'Retry them?') : 'Retry all that match'}
        </button>
        {asking ? (
          <button type="button" class="quiet" onClick={() => setAsking(false)}>
            No
          </button>
        ) : null}
        {running ? (
          <button type="button" onClick={() => tell('retry-cancel', {})}>
            Cancel the retry
          </button>
        ) : null}
        <Sql text={retryFiltered(filter, force)} />
      </div>
      {failure === null ? null : <Wrong failure={failure} />}
      {state.value === null ? null : <Progress state={state.value} />}
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
  const still = ['waiting', 'running', 'not retried'].includes(outcome);
  return <Badge kind={still ? 'plain' : 'bad'}>{outcome}</Badge>;
}
