/** Who says what of each sender, as a table: sender × fact × witness. Printed by `npm run test:verifiers`. Pure. */
import { eventPlaces } from './events.ts';
import { secretSources, type EvidenceSource } from './evidence.ts';
import { packages } from './packages.ts';
import type { Sender } from './sender.ts';

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

function witnessesOf({
  id,
  evidence,
  delivery,
  retries,
  answer,
  handshake,
}: Sender): Readonly<Record<Fact, string>> {
  return {
    signature: said(evidence.signature),
    'delivery id':
      delivery.kind === 'unverified'
        ? delivery.from === undefined
          ? missing
          : `an id, no word on retries: ${said(delivery.from)}`
        : `${delivery.kind}: ${said(delivery.from)}`,
    'clock and retries': said(retries?.from),
    answer: said(answer?.from),
    handshake: handshake === null ? 'asks nothing' : said(evidence.handshake),
    'event type': eventPlaces[id] === undefined ? 'in no one place' : said(evidence.event),
    'secret form': said(secretSources(evidence)),
    rotation: said(evidence.rotation),
  };
}

const missing = '—';

/** The kind of the best witness: a package that was run, the vendor's source or documentation, somebody else's word. */
function said(sources: EvidenceSource | readonly EvidenceSource[] | undefined): string {
  const [best] = sources === undefined ? [] : [sources].flat().toSorted((a, b) => rank(a) - rank(b));
  if (best === undefined) return missing;
  if ('package' in best) return `${best.package} ${packages[best.package].version}`;
  if ('code' in best) return 'source';
  if ('page' in best) return `page, ${best.read}`;
  return 'report' in best ? 'report' : 'not said';
}

function rank(source: EvidenceSource): number {
  if ('package' in source) return 0;
  if ('code' in source) return 1;
  if ('page' in source) return 2;
  return 'report' in source ? 3 : 4;
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

/** What nobody outside has said of the senders that most people use: `sender: fact`. */
export function missingOf(senders: ReadonlyMap<string, Sender>, of: readonly Fact[]): readonly string[] {
  return mostUsed.flatMap((id) => {
    const sender = senders.get(id);
    if (sender === undefined) return [`${id}: no such sender`];
    const witnesses = witnessesOf(sender);
    return of.filter((fact) => witnesses[fact] === missing).map((fact) => `${id}: ${fact}`);
  });
}
