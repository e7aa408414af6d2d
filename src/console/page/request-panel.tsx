/** One request beside the list: next and previous, its address, its contents. Keeps its tab when the next one is opened. */
import type { JSX } from 'preact';
import { digitsText } from '../visible-text.ts';
import { useSameReason } from './explained-view.tsx';
import { Copy, Shown, Sql } from './components.tsx';
import { useFacts } from './request-facts.ts';
import { Actions, Contents, Heading, Retried, Verdict } from './request-view.tsx';

interface Props {
  readonly id: string;
  /** In the list; -1: not among the rows that are loaded. */
  readonly place: number;
  readonly count: number;
  readonly more: boolean;
  /** Of all that match; null: it is not known. */
  readonly total: number | null;
  readonly hrefOf: (id: string) => string;
  readonly step: (by: number) => void;
  readonly canStep: (by: number) => boolean;
  readonly close: () => void;
  readonly senderName: (id: string) => string;
  readonly changed: () => void;
}

const panelKeys = [
  ['j  k', 'next, previous'],
  ['e', 'explain'],
  ['c', 'copy as curl'],
  ['Esc', 'close'],
] as const;

export function RequestPanel(props: Props): JSX.Element {
  const { id, place, count, more, total, hrefOf, step, canStep, close, senderName, changed } = props;
  const loaded = useFacts(id);
  const known = loaded.value;
  const same = useSameReason(known === null || known === 'gone' ? '' : known.row.id);
  return (
    <aside
      class="panel"
      aria-label="Request"
      onKeyDown={(event) => {
        if (event.key === 'Escape') close();
      }}
    >
      <div class="row-of panel-head">
        <span class="faint grow">
          {place < 0
            ? ''
            : `${place + 1} of ${total === null || total < count ? `${count}${more ? '+' : ''}` : digitsText(String(total))}`}
        </span>
        <button
          type="button"
          class="small"
          aria-label="Previous"
          disabled={!canStep(-1)}
          onClick={() => step(-1)}
        >
          ↑
        </button>
        <button type="button" class="small" aria-label="Next" disabled={!canStep(1)} onClick={() => step(1)}>
          ↓
        </button>
        <Copy text={location.href} label="Copy address" />
        <a class="button small" href={hrefOf(id)} aria-label="Open its page" data-key="o">
          ⤢
        </a>
        <button type="button" class="small" aria-label="Close" data-key="Escape" onClick={close}>
          ×
        </button>
      </div>
      <Shown loaded={loaded}>
        {(facts) =>
          facts === 'gone' ? (
            <div class="empty">
              There is no such request: its table is not yours, or it is no longer kept.
            </div>
          ) : (
            <>
              <Heading facts={facts} />
              <Verdict facts={facts} senderName={senderName} same={same} isPage={false} />
              <Actions
                facts={facts}
                pageHref={hrefOf(facts.row.id)}
                changed={() => (loaded.refresh(), changed())}
                isPage={false}
              />
              <Retried facts={facts} />
              <Contents facts={facts} changed={loaded.refresh} />
              {facts.sql === null ? null : <Sql text={facts.sql} />}
              <Keys />
            </>
          )
        }
      </Shown>
    </aside>
  );
}

const Keys = (): JSX.Element => (
  <p class="panel-keys faint">
    {panelKeys.map(([key, what]) => (
      <span key={key}>
        <kbd>{key}</kbd> {what}
      </span>
    ))}
  </p>
);
