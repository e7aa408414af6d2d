/** Who says what of each sender, as a table: sender × fact × witness. Printed by `npm run test:verifiers`. Pure. */
import { eventPlaces } from './events.ts';
import { isOthers, secretSources, type EvidenceSource } from './evidence.ts';
import { packages } from './packages.ts';
import type { Sender } from './sender.ts';
import { isOwnToken } from './token-forms.ts';

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
export function unfoundCount(senders: ReadonlyMap<string, Sender>): number {
  return mostUsed
    .flatMap((id) => Object.values(witnessesOf(senders.get(id) as Sender)))
    .filter((witness) => witness === notFound).length;
}
