/** The pages under docs/senders, generated from the table. Takes a sender, returns Markdown. Pure. */
import { nobody, secretSources, sourceText } from './evidence.ts';
import type { EvidenceSource } from './evidence.ts';
import { eventPlaces } from './events.ts';
import { ownChecksPage } from './custom-checks.ts';
import { dedupeText, minutes, repeatedSection } from './dedupe.ts';
import { hasEvent, senderTable } from './sender-table.ts';
import type { Sender, SignatureKind } from './sender.ts';
import { isOwnToken } from './token-forms.ts';
import { expressionOf, senders } from './senders.ts';
import { verifiersPage } from './verifiers-page.ts';

const printedFrom = 'This page is printed from `src/senders/`.\n';

/** Path from the repository's root → text. */
export function senderPages(): ReadonlyMap<string, string> {
  return new Map([
    ['docs/senders/README.md', sendersIndex()],
    ['docs/senders/own-checks.md', ownChecksPage(printedFrom)],
    ['docs/senders/verifiers.md', verifiersPage(senders)],
    ...[...senders.values()].map((sender) => [`docs/senders/${sender.id}.md`, senderPage(sender)] as const),
  ]);
}

const list = (items: readonly string[]) => items.map((item) => `- ${item}\n`).join('');
const steps = (items: readonly string[]) => items.map((item, i) => `${i + 1}. ${item}\n`).join('');

/** The names of the secret and the table on the page. */
const secretName = (sender: Sender) => `${sender.id}_secret`;

export function senderPage(sender: Sender): string {
  const { id, name, secret } = sender;
  const own = secretName(sender);
  const second = answerName(sender);
  const check = expressionOf(sender, own).replaceAll('\n', '\n  ');
  const answers = clausesOf(sender).map((clause) => `\n  ${clause.replaceAll('\n', '\n  ')}`);
  const table = senderTable(sender, `${id}_events`);
  return `# ${name}

${sender.ended === null ? '' : `**${sender.ended}**\n\n`}${summary(sender)}
${publicUrlFirst(sender)}
## At the sender

${steps(sender.steps)}
The URL of the table below is \`https://<your host>/webhook/dev/public/${id}_events${queryOf(sender)}\`. Most senders call only
port 443: [a proxy or a tunnel](../deploy/reverse-proxy.md) forwards it to Headgate’s port 4560.

## In Headgate

The secret is ${secret.what} (${secret.where}).${formNote(sender)}${secondNote(sender)}

\`\`\`sql
${learns(sender) ? `CREATE SECRET ${own} WITH (backend = 'meta', learn = '10 minutes');` : `CREATE SECRET ${own} WITH (backend = 'meta') AS '…';`}${second === null ? '' : `\nCREATE SECRET ${second} WITH (backend = 'meta') AS '…';`}

${table}
  VALIDATE SECRET ${own} USING ${id}${second === null ? '' : ` ANSWER SECRET ${second}`};
\`\`\`

${keptNote(sender)}
\`USING ${id}\` stands for this expression and these [answers](../sql/answer.md), which \`SHOW CREATE TABLE\` shows and which you may
change:

\`\`\`sql
${table}
  VALIDATE SECRET ${own} AS
  ${check}${answers.join('')};
\`\`\`

${handshakeSection(sender)}## Try it

${tryIt(sender)}
${repeatedSection(sender, `${id}_events`, own, second)}## Good to know

${list(facts(sender))}
## Who says so

| what | checked by whom |
| --- | --- |
${witnesses(sender)}
No live service was called. What “At the sender” and “Good to know” say and this table does not is from reading, without a witness; menus may have moved. ${printedFrom}`;
}

function keptNote(sender: Sender): string {
  const query = `SELECT event, count(*) FROM ${sender.id}_events GROUP BY event;`;
  const once =
    'id' in dedupeText(sender)
      ? ' A delivery that is repeated becomes a second row, unless you choose one of [the ways below](#a-delivery-that-is-repeated).'
      : '';
  const kept = `With its headers and its raw body a request can be sent again (\`headgate replay\`, \`headgate listen\`)${notKept(sender)}${once} Leave out the lines that you do not need.\n`;
  return hasEvent(sender) ? `${kept}\n\`\`\`sql\n-- How many of each event?\n${query}\n\`\`\`\n` : kept;
}

/** How a request that is sent again differs from what came: INCLUDE HEADERS leaves out what the check reads. */
function notKept({ id, name, headers, paired }: Sender): string {
  if (headers.length === 0) return ' as it came.';
  const left = headers.map((it) => `\`${it}\``).join(', ');
  const again = paired ? `only ${name} can sign it again` : `\`--sender ${id}\` signs it again`;
  return `: without ${left}, which \`INCLUDE HEADERS\` leaves out, as every header that the check reads, so that whoever reads the table has no signed request; ${again}.`;
}

/** Whether the sender brings the secret. */
const learns = (sender: Sender) => clausesOf(sender).some((clause) => clause.includes('\n  LEARN '));

const answerName = ({ id, answerSecret }: Sender) => (answerSecret === null ? null : `${id}_answer`);

/** What USING brings in addition to the expression; the last clause is the answer to a committed request. */
function clausesOf(sender: Sender): readonly string[] {
  const brought = sender.answers({ secret: secretName(sender), answer: answerName(sender) });
  return brought.some(isCommitted) ? brought : [...brought, 'ANSWER STATUS 200'];
}

const isCommitted = (clause: string) => !/^ANSWER[^\n]* WHEN /.test(clause);

function committedStatus(sender: Sender): string {
  return /STATUS (\d+)/.exec(clausesOf(sender).find(isCommitted) ?? '')?.[1] ?? '200';
}

/** How the sender’s URL ends, if it contains the token. */
const queryOf = ({ headers, theme, secret: { what } }: Sender) =>
  theme === 'A token' && headers.length === 0 ? (/`(\?\w+=)`/.exec(what)?.[1] ?? '').replace(/=$/, '=…') : '';

function secondNote({ answerSecret }: Sender): string {
  if (answerSecret === null) return '';
  return ` The handshake needs a second one: ${answerSecret.what} (${answerSecret.where}).`;
}

function handshakeSection(sender: Sender): string {
  const { id, handshake, questions, answerSecret } = sender;
  if (handshake === null) return '';
  const second = answerSecret === null ? '' : ` --answer-secret '…'`;
  const answered = `Headgate answers it as \`USING ${id}\` says, even while its database is unreachable, so create the table before you
enter its URL. \`headgate.handshakes\` shows what was asked and answered. To try it:

\`\`\`
headgate send ${id} --handshake --url http://127.0.0.1:4560/webhook/dev/public/${id}_events --secret '…'${second}
\`\`\`

This asks as the sender does, and says whether the sender would accept the answer.
`;
  const byHand = 'The steps above say what to do.\n';
  const learned = `Headgate learns the secret from it: the first one that arrives within the window of \`learn\` is kept, and the handshake is
answered once it is on the disk. Until then the table answers 503. See [LEARN](../sql/answer.md#learn). To try it, with a table
that has not learned its secret yet:

\`\`\`
headgate send ${id} --handshake --url http://127.0.0.1:4560/webhook/dev/public/${id}_events --secret '…'
\`\`\`

This sends the text of \`--secret\` as the sender would, and it becomes the table's secret.
`;
  return `## The handshake

${handshake}

${learns(sender) ? learned : questions.length > 0 ? answered : byHand}
`;
}

function summary(sender: Sender): string {
  const place =
    sender.signatureHeader === null
      ? `in the ${placeOf(sender)} itself`
      : `in the header \`${sender.signatureHeader}\``;
  const what = sender.theme === 'A token' ? 'carry a token' : 'are signed';
  const covers = sender.signsBody
    ? 'every byte of the body is covered'
    : 'the body as a whole is not covered';
  const age = sender.toleranceS === null ? '' : ` A signature is valid for ${minutes(sender.toleranceS)}.`;
  return `Requests from ${sender.name} ${what} ${place}; ${covers}.${age}`;
}

function placeOf(sender: Sender): string {
  if (/\bquery\b/.test(expressionOf(sender, 's')) && !sender.signsUrl) return 'URL';
  return sender.format === 'form' ? 'form' : 'body';
}

/** A setting without which nothing works comes before everything else. */
function publicUrlFirst({ signsUrl }: Sender): string {
  return signsUrl
    ? `
**Set \`HEADGATE_PUBLIC_URL\`** to the scheme and host that the sender calls, e.g. \`https://hooks.example.com\`, before you begin:
the URL is part of what is signed, and without this setting every request is refused with 401.
`
    : '';
}

function formNote({ secretForm }: Sender): string {
  return secretForm === null ? '' : ` CREATE TABLE warns if it is not ${secretForm.sentence}.`;
}

function tryIt(sender: Sender): string {
  const { id } = sender;
  const paired = sender.paired;
  const keys = paired
    ? `\`headgate send ${id} --make-secret\` prints a pair: \`secret\` is for CREATE SECRET, and \`signingKey\` is for \`--secret\` below.\n\n`
    : '';
  const publicUrl = sender.signsUrl
    ? 'Start Headgate with `HEADGATE_PUBLIC_URL` set to the URL that is called, here `http://127.0.0.1:4560`.\n\n'
    : '';
  const row =
    sender.format === 'form'
      ? 'the row is in the table, its fields as a JSON object'
      : 'the row is in the table';
  const answer = `The answer is ${committedStatus(sender)} and ${row}; with another secret it is 401.${sender.toleranceS === null ? '' : ' `--stale` sends a signature that is too old.'}${sender.signsBody ? ' `--tamper` sends a body other than the signed one.' : ''}`;
  return `${publicUrl}${keys}\`\`\`
headgate send ${id} --url http://127.0.0.1:4560/webhook/dev/public/${id}_events --secret '…'
\`\`\`

${answer}
`;
}

function facts(sender: Sender): readonly string[] {
  const second = answerName(sender);
  const using = `USING ${sender.id}${second === null ? '' : ` ANSWER SECRET ${second}`}`;
  return [
    ...sender.notes,
    `To change the secret without losing a request: \`ALTER TABLE … VALIDATE SECRET old, new ${using}\`, change it at the sender, then \`… SECRET new ${using}\`.`,
    ...(sender.answers({ secret: 'own', answer: 'second' }).some((clause) => clause.includes('hmac(own'))
      ? ['While two secrets are named, the handshake is answered with the first one.']
      : []),
    ...(sender.headers.length === 0
      ? []
      : [`The check reads ${sender.headers.map((name) => `\`${name}\``).join(', ')}.`]),
    ...eventName(sender),
  ];
}

/** Where the event's name is, which a table that keeps only the body does not have if it is in a header. */
function eventName({ id, evidence: { event } }: Sender): readonly string[] {
  const place = eventPlaces[id];
  if (place === undefined) return [];
  const isKnown = event !== undefined && [event].flat().some((source) => !('unfound' in source));
  const sure = isKnown ? '' : ' That is from memory: nobody has verified it.';
  return 'header' in place
    ? [
        `The event’s name is in the header \`${place.header}\` and not in the body: \`INCLUDE HEADER '${place.header.toLowerCase()}' AS event\`, before WITH, keeps it in a column.${sure}`,
      ]
    : [`The event’s name is in \`${place.field.join('.')}\` of the body.${sure}`];
}

/** One row for each thing that the page says; what nobody has looked up is said to be so. */
function witnesses(sender: Sender): string {
  const { id, delivery, retries, answer, handshake, evidence } = sender;
  const rows: readonly (readonly [string, EvidenceSource | readonly EvidenceSource[] | null | undefined])[] =
    [
      [sender.theme === 'A token' ? 'where the token is' : 'the signature', evidence.signature],
      ['the id of a delivery', delivery.from],
      [retriesRow(sender), retries?.from ?? evidence.retries],
      ...(handshake === null ? [] : [['the handshake', evidence.handshake] as const]),
      [
        answer === null
          ? 'the answer that it wants, and how soon'
          : `the answer that it wants: ${answer.what}`,
        answer?.from ?? evidence.answer,
      ],
      ['how the secret is changed', evidence.rotation],
      ...(isOwnToken(sender) ? [] : [['the form of the secret', secretSources(evidence)] as const]),
      ...(eventPlaces[id] === undefined ? [] : [['the event’s name', evidence.event] as const]),
    ];
  return rows.map(([what, sources]) => `| ${what} | ${saidBy(sources)} |\n`).join('');
}

function retriesRow({ retries, toleranceS }: Sender): string {
  const isSaid = toleranceS !== null && retries !== null && retries.signed !== 'unsaid';
  return isSaid ? 'when it tries again, and what it signs then' : 'when it tries again';
}

function saidBy(sources: EvidenceSource | readonly EvidenceSource[] | null | undefined): string {
  const all = sources === null || sources === undefined ? [] : [sources].flat();
  return all.length === 0 ? nobody : all.map(sourceText).join('; ').replaceAll('|', '\\|');
}

const intro: Readonly<Record<SignatureKind, string>> = {
  'A signature of the body': 'An HMAC of the body. An old request is accepted again.',
  'A signature of the body and a timestamp': 'An HMAC of the body and of the time it was sent.',
  'Standard Webhooks': 'The [Standard Webhooks](https://www.standardwebhooks.com) specification, version 1.',
  'A public key': 'The sender signs with a private key, or sends a JSON Web Token.',
  'A signature of the URL or of fields':
    'The signature covers the URL that the sender calls, or some fields.',
  'A token': 'A shared text in a header, the body or the URL; nothing is signed.',
};

/** Aliases, which USING takes; among them brands that send in a form that several have. */
function byAnotherName(): string {
  const aliases = [...senders.values()].flatMap(({ id, aliases }) =>
    aliases.map((alias) => [alias, `\`${id}\` (\`USING ${alias}\` is the same)`] as const),
  );
  return aliases
    .toSorted(([a], [b]) => a.localeCompare(b, 'en'))
    .map(([name, using]) => `| ${name} | ${using} |\n`)
    .join('');
}

function sendersIndex(): string {
  const themes = Object.keys(intro) as SignatureKind[];
  const all = [...senders.values()].toSorted((a, b) => a.name.localeCompare(b.name, 'en'));
  const sections = themes.map((theme) => {
    const rows = all
      .filter((sender) => sender.theme === theme)
      .map((sender) => {
        const age = sender.toleranceS === null ? '—' : minutes(sender.toleranceS);
        const handshake =
          sender.handshake === null ? '—' : sender.questions.length > 0 ? 'answered' : 'see page';
        return `| [${sender.name}](${sender.id}.md) | \`${sender.id}\` | ${sender.secret.what.replaceAll('|', '\\|')} | ${age} | ${handshake} |`;
      });
    return `## ${theme}

${intro[theme]}

| sender | \`USING\` | the secret | valid for | handshake |
| --- | --- | --- | --- | --- |
${rows.join('\n')}
`;
  });
  return `# Webhook senders

Headgate knows how these ${all.length} senders sign their requests: \`VALIDATE SECRET s USING <name>\` writes the expression for you, and
\`headgate send <name>\` sends what they would send. For any other sender, write your own expression
([VALIDATE](../sql/validate.md); [message signatures and OAuth](own-checks.md)).

A handshake is a question that a sender asks before it delivers; some repeat it. If it is *answered*, \`USING\` brings the answer.
\`headgate send <name> --handshake\` asks as the sender does. A stored request gets the answer that its sender expects, usually an
empty 200.

[This page](verifiers.md) lists which of them were tested against the senders’ own packages.

${sections.join('\n')}
## By another name

| looked for | \`USING\` |
| --- | --- |
${byAnotherName()}
## headgate send

\`headgate send <name> --url <the table’s URL> --secret <text>\` sends what the sender would send, correctly signed, and exits with 0 if every
answer is what the sender expects. \`headgate send --help\` lists all options.

| option | effect |
| --- | --- |
| \`--handshake\`, \`--answer-secret <text>\` | asks what the sender asks before it delivers, and judges status, type, body, headers, size and time of the answers as the sender would |
| \`--event <name>\`, \`--header 'name: value'\`, \`--body <file>\` | another event name, in the place where the sender writes it; other headers; another body |
| \`--id <text>\`, \`--repeat <n>\` | one delivery with a fixed id; the same delivery n times, each signed again |
| \`--stale\`, \`--tamper\` | a signature that is too old; a body other than the signed one. A refusal is the right answer, and gives the exit status 0 |
| \`--count <n>\`, \`--rate <n/s>\` | many different deliveries |
| \`--signed-url <url>\` | the URL that the sender calls and signs, if a proxy is in front of Headgate |
| \`--print\` | prints the requests as curl commands instead. They contain a token if the sender sends one, but never a key |
| \`--make-secret\` | prints a new secret and the key that belongs to it |

## Not expressible

${unsupported.map(({ name, reason }) => `- **${name}**: ${reason}\n`).join('')}
${printedFrom}`;
}

/** Senders whose requests a VALIDATE expression cannot check, each with the reason. */
const unsupported: readonly { readonly name: string; readonly reason: string }[] = [
  {
    name: 'Microsoft Graph, rich notifications',
    reason:
      'the tokens of `validationTokens` are a list, and an expression cannot loop over a list; encrypted content needs a private key. `USING microsoft_graph` compares `clientState`.',
  },
  {
    name: 'WeCom, WeChat in its encrypted modes, and Lark with an encrypt key',
    reason: 'the body is encrypted with AES, and an expression cannot decrypt.',
  },
  {
    name: 'Alexa, Dialogflow, Google Chat and others that expect an answer computed from the request',
    reason:
      'a table stores a request and acknowledges it; an answer for a person to read or hear has to come from an application.',
  },
  {
    name: 'Atlassian Connect, the `qsh` claim',
    reason:
      'it is a digest of the sorted and escaped query, and an expression cannot sort a query. `USING atlassian_connect` checks the token without it.',
  },
  {
    name: 'AWS SNS and PayPal, without a pinned certificate',
    reason:
      'the request names the URL of the certificate, and an expression never fetches anything. The certificate goes into the secret instead.',
  },
  {
    name: 'Hygraph',
    reason:
      'it signs a JSON text that contains the body as an escaped string and the time as a number, and an expression cannot escape one.',
  },
];
