/** Accepted requests, of those that are selected, that are sent to this Headgate once more. */
import type { JSX } from 'preact';
import type { HeldRequest } from '../../observe/tail.ts';
import type { ListedRequest, TestAnswer } from '../api.ts';
import { call } from './server.ts';

interface QuestionProps {
  readonly count: number;
  readonly replay: () => void;
  readonly close: () => void;
}

export function ReplayQuestion({ count, replay, close }: QuestionProps): JSX.Element {
  return (
    <p>
      They are sent to this Headgate once more, signed anew. Where a table stores each delivery once, no
      second row is made; elsewhere each makes another row.{' '}
      <button type="button" class="primary" onClick={replay}>
        Send {count}
      </button>{' '}
      <button type="button" onClick={close}>
        Cancel
      </button>
    </p>
  );
}

/** One after the other, each with what it held; says how each was answered. */
export async function replayed(rows: readonly ListedRequest[]): Promise<readonly string[]> {
  const said: string[] = [];
  for (const { held, schema, table } of rows)
    try {
      const it = await call<HeldRequest>('held', { body: { held, schema, table } });
      if (atob(it.body).length < it.bodyBytes) {
        said.push('not sent: only the beginning of its body is kept');
        continue;
      }
      const at = it.target.indexOf('?');
      const body = {
        schema,
        table,
        method: it.method,
        query: at === -1 ? '' : it.target.slice(at),
        headers: Object.entries(it.headers),
        body: it.body,
        sign: true,
        checked: true,
      };
      const { status } = await call<TestAnswer>('replay', { body });
      said.push(`answered ${status}`);
    } catch (error) {
      said.push(`not sent: ${(error as Error).message}`);
    }
  return said;
}
