/**
 * `headgate senders [word]`: the senders that Headgate knows, by the word that follows USING. Takes a word of a name; returns the exit status: 1
 * if no sender has it, with a hint of what to do instead. Needs no Headgate.
 */
import { senders, hintForSender } from '../senders/senders.ts';
import type { Sender } from '../senders/sender.ts';
import { jsonLine, plain } from '../kit/terminal.ts';
import type { CommandIo } from '../kit/terminal.ts';
import { tableOf } from './print.ts';

export function sendersCommand(word: string | undefined, json: boolean, io: CommandIo): number {
  const wanted = letters(word ?? '');
  const found = [...senders.values()].filter((sender) => namesOf(sender).some((it) => it.includes(wanted)));
  const hint = word === undefined || found.length > 0 ? null : hintForSender(word);
  if (found.length === 0) {
    io.note(`no sender is called ${plain(word ?? '')}${hint === null ? '' : `: ${hint}`}\n`);
    io.note('docs/sql/validate.md says how to write the check of any other sender\n');
    return 1;
  }
  const shown = found
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))
    .map(({ id, name, aliases, signatureHeader, delivery }) => ({
      id,
      name,
      aliases,
      signature_header: signatureHeader,
      page: `docs/senders/${id}.md`,
      delivery: delivery.kind,
    }));
  if (json) for (const sender of shown) io.print(jsonLine(sender));
  else
    io.print(
      tableOf(
        shown.map(({ aliases, id, name, signature_header: header, page }) => ({
          using: id,
          service: name,
          'also called': aliases.join(', '),
          'signs in': header ?? '',
          page,
        })),
        ['using', 'service', 'also called', 'signs in', 'page'],
        io,
      ),
    );
  if (!json) io.note(`headgate init <using> makes an endpoint for one\n`);
  return 0;
}

const letters = (text: string): string => text.toLowerCase().replaceAll(/[^a-z0-9]/g, '');

const namesOf = ({ id, name, aliases }: Sender): string[] => [id, name, ...aliases].map(letters);
