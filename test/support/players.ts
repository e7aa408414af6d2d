/**
 * By whom a sender's requests are signed or judged in tests, other than by `src/senders`: vendors' packages, signed requests that were
 * published, and second implementations by what is documented. Pure.
 */
import { minutes } from '../../src/senders/dedupe.ts';
import type { Sender } from '../../src/senders/sender.ts';
import { senders } from '../../src/senders/senders.ts';
import { documentedMore } from './documented-more.ts';
import { documented } from './documented-signers.ts';
import { challengePackages, judges, pythonPackages } from './fetched-packages.ts';
import { receiverPackages } from './package-receivers.ts';
import { packages } from './package-signers.ts';

const second = 'a second implementation';

export function playersOf(id: string): readonly string[] {
  const isOf = (name: string) => name.split(' ')[0] === id;
  const signed = packages.filter(({ sender }) => sender === id).map(({ package: name }) => name);
  const judged = judges.filter((judge) => judge.senders.includes(id)).map(({ package: name }) => name);
  const named = [receiverPackages, pythonPackages].flatMap((of) =>
    Object.entries(of).filter(([it]) => it === id),
  );
  const isWritten = [documented, documentedMore].some((all) => Object.keys(all).some(isOf));
  return [
    ...new Set([
      ...signed,
      ...judged,
      ...named.map(([, name]) => name ?? 'jose'),
      ...(isWritten ? [second] : []),
    ]),
  ];
}

/** One line for each sender: what is played, and by whom. */
export function playedTable(): string {
  const lines = [...senders.values()].map((sender) => {
    const by = playersOf(sender.id);
    return `| ${[sender.id, by.join(', '), ...played(sender)].join(' | ')} |\n`;
  });
  const head = ['sender', 'played by', 'another body', 'stale', 'repeated after', 'handshake'];
  return `| ${head.join(' | ')} |\n| ${head.map(() => '---').join(' | ')} |\n${lines.toSorted().join('')}`;
}

function played({ id, signsBody, toleranceS, retries, questions }: Sender): readonly string[] {
  const { afterS = [], lastS } = retries ?? {};
  const steps = [...new Set([...afterS, ...(lastS === undefined ? [] : [lastS])])];
  const asked = Object.hasOwn(challengePackages, id) ? 'answered, by its package' : 'answered';
  return [
    signsBody ? 'refused' : 'not signed',
    toleranceS === null ? 'no time' : `after ${minutes(toleranceS)}`,
    steps.length === 0 ? '—' : `${steps.length} times, at last after ${minutes(Math.max(...steps))}`,
    questions.length === 0 ? '—' : asked,
  ];
}
