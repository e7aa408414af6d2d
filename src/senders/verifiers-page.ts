/**
 * The page of the vendors' packages that tests run, printed from `packages.ts` and from what the entries claim; and who says what of each sender, as a table
 * of sender × fact × witness, which `npm run test:verifiers` prints. Pure.
 */
import { type Package, type PackageName, packages } from './packages.ts';
import type { Sender } from './sender.ts';
import { eventPlaces } from './events.ts';
import { isOthers, secretSources, type EvidenceSource } from './evidence.ts';
import { isOwnToken } from './token-forms.ts';

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

/** The senders that most people use, by the directories of other receivers. */
export const mostUsed: readonly string[] = [
  'stripe',
  'github',
  'shopify',
  'slack',
  'twilio_form',
  'paypal',
  'meta',
  'sendgrid',
  'discord',
  'telegram',
  'jira',
  'zendesk',
  'zoom',
  'square',
  'adyen',
  'aws_sns',
  'svix',
  'clerk',
  'openai',
  'notion',
  'linear',
  'vercel',
  'microsoft_graph',
  'gitlab',
  'bitbucket',
  'hubspot',
  'mailgun',
  'woocommerce',
  'mailchimp',
  'intercom',
  'typeform',
  'calendly',
  'docusign',
  'salesforce',
  'dropbox',
  'asana',
  'pagerduty',
  'razorpay',
  'standard_webhooks',
  'resend',
];

const facts = [
  'signature',
  'delivery id',
  'clock and retries',
  'answer',
  'handshake',
  'event type',
  'secret form',
  'rotation',
] as const;
type Fact = (typeof facts)[number];

function witnessesOf(sender: Sender): Readonly<Record<Fact, string>> {
  const { id, evidence, delivery, retries, answer, handshake } = sender;
  return {
    signature: said(evidence.signature),
    'delivery id':
      delivery.kind === 'unverified'
        ? delivery.from === undefined
          ? missing
          : `an id, no word on retries: ${said(delivery.from)}`
        : `${delivery.kind}: ${said(delivery.from)}`,
    'clock and retries': said(retries?.from ?? evidence.retries),
    answer: said(answer?.from ?? evidence.answer),
    handshake: handshake === null ? 'asks nothing' : said(evidence.handshake),
    'event type': eventPlaces[id] === undefined ? 'in no one place' : said(evidence.event),
    'secret form': isOwnToken(sender) ? 'your own text' : said(secretSources(evidence)),
    rotation: said(evidence.rotation),
  };
}

const missing = '—';
const notSaid = 'not said';
const notFound = 'no source found';

/** The kind of the best witness: a package that was run, the vendor's source or documentation, somebody else's word. */
function said(sources: EvidenceSource | readonly EvidenceSource[] | undefined): string {
  const [best] = sources === undefined ? [] : [sources].flat().toSorted((a, b) => rank(a) - rank(b));
  if (best === undefined) return missing;
  if ('package' in best)
    return `${best.package} ${packages[best.package].version}${isOthers(best.package) ? ' (of somebody else)' : ''}`;
  if ('vector' in best) return 'vector';
  if ('code' in best) return 'source';
  if ('page' in best) return `page, ${best.read}`;
  if ('report' in best) return 'report';
  return 'silent' in best ? notSaid : notFound;
}

const kinds = ['package', 'vector', 'code', 'page', 'report', 'silent', 'unfound'] as const;

/** What a package of somebody else says is a report. */
function rank(source: EvidenceSource): number {
  const kind = 'package' in source && isOthers(source.package) ? 'report' : null;
  return kinds.findIndex((it) => (kind === null ? it in source : it === kind));
}

/** One line for each sender, those of most people first. */
export function witnessTable(senders: ReadonlyMap<string, Sender>): string {
  const first = (id: string) => (mostUsed.includes(id) ? mostUsed.indexOf(id) : mostUsed.length);
  const ids = [...senders.keys()].toSorted((a, b) => first(a) - first(b) || a.localeCompare(b, 'en'));
  const lines = ids.map((id) => {
    const sender = senders.get(id);
    const witnesses = sender === undefined ? [] : Object.values(witnessesOf(sender));
    return `| ${[id, ...witnesses].join(' | ')} |\n`;
  });
  const head = ['sender', ...facts];
  return `| ${head.join(' | ')} |\n| ${head.map(() => '---').join(' | ')} |\n${lines.join('')}`;
}

/**
 * Facts of the senders that most people use of which nobody has looked for a witness, and signatures that have none: `sender: fact`. Each has
 * to say whose word its delivery id is, or why there is none.
 */
export function openFacts(senders: ReadonlyMap<string, Sender>): readonly string[] {
  return mostUsed.flatMap((id) => {
    const sender = senders.get(id);
    if (sender === undefined) return [`${id}: no such sender`];
    const witnesses = witnessesOf(sender);
    const open = facts.filter((fact) => witnesses[fact] === missing);
    const unsigned = [notSaid, notFound].includes(witnesses.signature) ? ['signature'] : [];
    return [...open, ...unsigned].map((fact) => `${id}: ${fact}`);
  });
}

/** Of how many facts of the senders that most people use somebody has looked for a source, in vain. */
function unfoundCount(senders: ReadonlyMap<string, Sender>): number {
  return mostUsed
    .flatMap((id) => Object.values(witnessesOf(senders.get(id) as Sender)))
    .filter((witness) => witness === notFound).length;
}
