/** The page of the vendors' packages that tests run, printed from `packages.ts` and from what the entries claim. Pure. */
import type { EvidenceSource } from './evidence.ts';
import { type Package, type PackageName, packages } from './packages.ts';
import type { Sender } from './sender.ts';
import { openFacts, unfoundCount, witnessTable } from './evidence-table.ts';

export function verifiersPage(senders: ReadonlyMap<string, Sender>): string {
  return `# Run on the vendors’ own packages

The senders' own packages and programs, played against Headgate. Those that sign send a request to a running Headgate: it is \`200\` and a row, with another key
\`401\` and nothing. Those that check look at what \`headgate send\` makes, and accept that and nothing else: not what another key has signed, and not another body.

## With each run of the suite

${table(senders, 'each run')}
\`jose\` signs tokens in the shape of Plaid's, monday.com's and Apple's, which have no package that could. \`@slack/bolt\`’s receiver is also asked what \`headgate send slack --handshake\` asks, and answers it.

## By hand: \`npm run test:verifiers\`

Packages for Python, and those for Node that bring much with them. The command installs them in a temporary folder, so it needs the network and \`python3\`. Last run
whole on 27 November 2026: all of it held.

${table(senders, 'by hand')}
Twitch's command line tool is tried where \`HEADGATE_TWITCH_CLI\` is its path. It has no package: it is built from its public repository, \`twitchdev/twitch-cli\`, by
\`go build .\` with Go 1.20 or later and a C compiler. It takes the answer to its challenge, with the right type and status, for three kinds of events; signed with
another secret both the challenge and the event are \`401\`. It was last run on 22 November 2026, at commit \`fd7dac6\`.

\`@trigger.dev/core\` is nobody's own: it describes how senders sign, and the descriptions are followed. \`paypalrestsdk\` says which text PayPal signs; its \`verify\`
itself wants PayPal's own certificate. \`@vonage/jwt\`, \`mercadopago\`, \`@dropbox/sign\` and \`atlassian-jwt\` do not look at the body.

## Not run

- **eBay's SDK** also checks signatures, with a public key that it fetches from eBay: it cannot be given another one.
- No sender's live service was called. Each page says where its facts come from.

## Who says what

The best witness of each fact: a package that was run, a signed request that the vendor has published (“vector”), the vendor's source or documentation, or
somebody else's word (“report”). “not said”: somebody has looked, and the page of the sender says where. “no source found”: somebody has looked for one, in vain.
“—”: nobody has looked.

${witnessTable(senders)}
${openSentence(senders)}

This page is printed from \`src/senders/\`.
`;
}

function openSentence(senders: ReadonlyMap<string, Sender>): string {
  const open = openFacts(senders);
  return open.length === 0
    ? `Each of the 40 most used has a witness for its signature, and for its delivery id or the sentence that there is none. Of each of their other facts the table has a witness as well, but for ${unfoundCount(senders)} for which no source was found.`
    : `Of the 40 most used, nobody outside has said yet: ${open.join(', ')}.`;
}

function table(senders: ReadonlyMap<string, Sender>, when: Package['when']): string {
  const rows = (Object.entries(packages) as [PackageName, Package][])
    .filter(([, it]) => it.when === when)
    .map(([key, { registry, name = key, version }]) => {
      const by = [...senders.values()].filter(({ evidence }) =>
        Object.values(evidence).flat().some(isOf(key)),
      );
      return `| \`${name}\` | ${registry} | ${version} | ${by.map(({ id }) => `[${id}](${id}.md)`).join(', ')} |\n`;
    });
  return `| package | from | version | senders |\n| --- | --- | --- | --- |\n${rows.join('')}`;
}

const isOf = (key: PackageName) => (source: EvidenceSource) => 'package' in source && source.package === key;
