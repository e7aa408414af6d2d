/** What is observed of groups once their outcomes are known. Takes a group and its outcomes; touches nothing. */
import type { Group, Outcome } from '../types/rows.ts';
import { refusals } from '../errors/refusals.ts';
import type { Observe } from '../observe/observations.ts';
import { isSendersAffair } from './interpret-reply.ts';

/** Reports a group that has ended. `seconds`: since it asked for its connection. */
export function tellOutcomes(
  observe: Observe,
  group: Group,
  outcomes: readonly Outcome[],
  seconds: number,
): void {
  const table = group.target;
  let committed = 0;
  let bytes = 0;
  outcomes.forEach((outcome, i) => {
    if (outcome.kind !== 'committed') return;
    committed += outcome.rows;
    bytes += group.members[i]?.bytes ?? 0;
  });
  if (committed > 0) observe({ kind: 'group.committed', table, rows: committed, bytes, seconds });
  const troubled = outcomes.filter((o) => o.kind !== 'committed' && !isSendersAffair(o.refusal));
  const worst = troubled.find((o) => o.kind === 'unknown') ?? troubled[0];
  const rows = group.rows - committed;
  if (worst?.kind === 'unknown')
    observe({ kind: 'group.unknown', table, rows, reason: worst.refusal.message });
  else if (worst?.kind === 'aborted')
    observe({
      kind: 'group.aborted',
      table,
      rows,
      sqlstate: refusals[worst.refusal.code].sqlstate,
      reason: worst.refusal.engineError ?? worst.refusal.message,
    });
  tellIgnored(observe, group, outcomes);
}

/** Reports the keys of stored documents that are no columns. */
export function tellIgnored(
  observe: Observe,
  { target, members }: Group,
  outcomes: readonly Outcome[],
): void {
  let documents = 0;
  let keys: readonly string[] = [];
  members.forEach(({ ignored }, i) => {
    if (ignored === null || outcomes[i]?.kind !== 'committed') return;
    documents += ignored.documents;
    ({ keys } = ignored);
  });
  if (documents === 0) return;
  observe({ kind: 'keys.ignored', table: target, documents, keys });
}
