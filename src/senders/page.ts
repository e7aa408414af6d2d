/** The pages under docs/senders, made from the table. Takes a sender, gives Markdown. Pure. */
import { unsupported } from './not-expressible.ts';
import { repeatedSection, tableOptions } from './repeated.ts';
import { isPaired } from './sender.ts';
import type { Sender, Theme } from './sender.ts';
import { expressionOf, senders } from './senders.ts';

const printedFrom = 'This page is printed from `src/senders/`.\n';

/** Path from the repository's root → text. */
export function senderPages(): ReadonlyMap<string, string> {
  return new Map([
    ['docs/senders/README.md', sendersIndex()],
    ...[...senders.values()].map((sender) => [`docs/senders/${sender.id}.md`, senderPage(sender)] as const),
  ]);
}

const list = (items: readonly string[]) => items.map((item) => `- ${item}\n`).join('');
const steps = (items: readonly string[]) => items.map((item, i) => `${i + 1}. ${item}\n`).join('');

/** The secret's and the table's names on the page. */
const secretName = (sender: Sender) => `${sender.id}_secret`;

export function senderPage(sender: Sender): string {
  const { id, name, secret } = sender;
  const own = secretName(sender);
  const check = expressionOf(sender, own).replaceAll('\n', '\n  ');
  const options = tableOptions(sender);
  return `# ${name}

${summary(sender)}
${publicUrlFirst(sender)}
## At the sender

${steps(sender.steps)}
The URL of the table below is \`https://<your host>/webhook/dev/public/${id}_events\`.

## In Headgate

The secret is ${secret.what} (${secret.where}).${formNote(sender)}

\`\`\`sql
CREATE SECRET ${own} WITH (backend = 'meta') AS '…';

CREATE TABLE ${id}_events (data JSONB) WITH (${options})
  VALIDATE SECRET ${own} USING ${id};
\`\`\`

\`USING ${id}\` stands for this expression, which \`SHOW CREATE TABLE\` shows and which you may change:

\`\`\`sql
CREATE TABLE ${id}_events (data JSONB) WITH (${options})
  VALIDATE SECRET ${own} AS
  ${check};
\`\`\`

## Try it

${tryIt(sender)}
${repeatedSection(sender, `${id}_events`, own)}## Good to know

${list(facts(sender))}
${printedFrom}`;
}

function summary(sender: Sender): string {
  const place =
    sender.signatureHeader === null
      ? `in the ${sender.contentType.startsWith('application/x-www') ? 'form' : 'body'} itself`
      : `in the header \`${sender.signatureHeader}\``;
  const what = sender.theme === 'A token' ? 'sends a token' : 'signs its requests';
  const covers = sender.signsBody
    ? 'every byte of the body is covered'
    : 'the body as a whole is not covered';
  const age = sender.toleranceS === null ? '' : ` A signature is good for ${sender.toleranceS} seconds.`;
  return `${sender.name} ${what} ${place}; ${covers}.${age}`;
}

/** The setting without which nothing works stands before everything else. */
function publicUrlFirst({ signsUrl }: Sender): string {
  return signsUrl
    ? `
**Set \`HEADGATE_PUBLIC_URL\`** to the scheme and host that the sender calls, e.g. \`https://hooks.example.com\`, before you begin:
the URL is part of what is signed, and without this setting every request is refused with 401.
`
    : '';
}

function formNote({ secretForm }: Sender): string {
  return secretForm === null ? '' : ` CREATE TABLE warns when it is not ${secretForm.sentence}.`;
}

function tryIt(sender: Sender): string {
  const { id } = sender;
  const paired = isPaired(sender);
  const keys = paired
    ? `\`headgate send ${id} --make-secret\` prints a pair: \`secret\` is for CREATE SECRET, and \`signingKey\` is what this signs with.\n\n`
    : '';
  const publicUrl = sender.signsUrl
    ? 'Start Headgate with `HEADGATE_PUBLIC_URL` set to what the sender calls, here `http://127.0.0.1:4560`.\n\n'
    : '';
  const answer = isForm(sender)
    ? 'The answer is 200 and the row is in the table, its fields as a JSON object; with another secret it is 401.'
    : 'The answer is 200 and the row is in the table; with another secret it is 401.';
  return `${publicUrl}${keys}\`\`\`
headgate send ${id} --url http://127.0.0.1:4560/webhook/dev/public/${id}_events --secret '…'
\`\`\`

${answer}
`;
}

const isForm = (sender: Sender) => sender.contentType === 'application/x-www-form-urlencoded';

function facts(sender: Sender): readonly string[] {
  return [
    ...(sender.handshake === null ? [] : [`Handshake: ${sender.handshake}`]),
    ...sender.notes,
    `To change the secret without losing a request: \`ALTER TABLE … VALIDATE SECRET old, new USING ${sender.id}\`, change it at the sender, then \`… SECRET new USING ${sender.id}\`.`,
    ...(sender.headers.length === 0
      ? []
      : [`The check reads ${sender.headers.map((name) => `\`${name}\``).join(', ')}.`]),
  ];
}

const intro: Readonly<Record<Theme, string>> = {
  'A signature of the body': 'An HMAC of the bytes of the body. An old request is accepted again.',
  'A signature of the body and a timestamp': 'An HMAC of the body and of the time it was sent.',
  'Standard Webhooks': 'The [Standard Webhooks](https://www.standardwebhooks.com) specification, version 1.',
  'A public key': 'The sender signs with a private key, or sends a JSON Web Token.',
  'A signature of the URL or of fields': 'What is signed is the URL as the sender calls it, or some fields.',
  'A token': 'A shared text in a header or in the body; nothing is signed.',
};

export function sendersIndex(): string {
  const themes = Object.keys(intro) as Theme[];
  const all = [...senders.values()];
  const sections = themes.map((theme) => {
    const rows = all
      .filter((sender) => sender.theme === theme)
      .map((sender) => {
        const age = sender.toleranceS === null ? '—' : `${sender.toleranceS} s`;
        const handshake = sender.handshake === null ? '—' : 'yes';
        return `| [${sender.name}](${sender.id}.md) | \`${sender.id}\` | ${sender.secret.what.replaceAll('|', '\\|')} | ${age} | ${handshake} |`;
      });
    return `## ${theme}

${intro[theme]}

| sender | \`USING\` | the secret | good for | handshake |
| --- | --- | --- | --- | --- |
${rows.join('\n')}
`;
  });
  return `# Webhook senders

Headgate knows how these ${all.length} sign their requests: \`VALIDATE SECRET s USING <name>\` writes the expression for you, and
\`headgate send <name>\` sends what they would send. Any other sender is checked by an expression of your own
([VALIDATE](../sql/validate.md)).

A handshake is a question that a sender asks before it delivers: Headgate does not answer it, and the sender's page says
what to do.

${sections.join('\n')}
## Not expressible

${unsupported.map(({ name, reason }) => `- **${name}**: ${reason}\n`).join('')}
${printedFrom}`;
}
