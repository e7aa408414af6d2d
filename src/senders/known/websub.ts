/** WebSub and YouTube, which uses it. */
import { code } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { type Sender, type SenderSpec, sender } from '../sender.ts';
import { isoSeconds, mac, uuid } from '../signing.ts';

/** An Atom entry, as hubs send it: XML, which goes into a text column. */
const atom = (id: string, title: string, at: string) =>
  `<?xml version='1.0' encoding='UTF-8'?>\n<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>${id}</id><title>${title}</title><published>${at}</published></entry></feed>`;

const textNote =
  "The body is XML: with `format = 'text'` it is stored unchanged in a TEXT column, and `data::xml` parses it.";

/** WebSub lets the hub choose the digest: any of the known methods is accepted. */
function hub(
  methods: readonly ('sha1' | 'sha256' | 'sha384' | 'sha512')[],
  spec: Omit<SenderSpec, 'headers' | 'secret'>,
): Sender {
  const [first = 'sha1'] = methods;
  return sender('A signature of the body', {
    headers: ['X-Hub-Signature'],
    secret: { what: 'the text of `hub.secret`, at most 199 bytes', where: 'you subscribe with it' },
    contentType: 'application/atom+xml',
    expression: (s) =>
      methods
        .map(
          (method) =>
            `secure_compare(${header('X-Hub-Signature')}, '${method}=' || ${hmac(s, 'payload', method, 'hex')})`,
        )
        .join('\n  OR '),
    sign: ({ body, signingKey }) => ({
      headers: { 'X-Hub-Signature': `${first}=${mac(first, signingKey, 'hex', body)}` },
    }),
    ...spec,
    notes: [...(spec.notes ?? []), textNote],
  });
}

export const websub: readonly Sender[] = [
  hub(['sha256', 'sha1', 'sha384', 'sha512'], {
    id: 'websub',
    name: 'WebSub (any hub)',
    evidence: {
      signature: code('w3c/websub, the recommendation'),
      handshake: code('w3c/websub, the recommendation'),
    },
    steps: [
      'Create the table first, and keep this running: `headgate websub <topic> --callback <the URL of the table> --secret-file …`. It subscribes at the hub that the feed names, and renews the subscription before it ends.',
      'By hand: POST a form to the hub with `hub.mode=subscribe`, `hub.topic`, `hub.callback` (the URL of the table) and `hub.secret`, and again before the lease ends.',
    ],
    example: ({ id, nowMs }) => atom(`urn:uuid:${uuid(id)}`, 'Café', isoSeconds(nowMs)),
  }),
  hub(['sha1'], {
    id: 'youtube',
    aliases: ['pubsubhubbub'],
    name: 'YouTube (push notifications of channels)',
    evidence: { handshake: code('w3c/websub, the recommendation') },
    steps: [
      "Create the table first, and keep this running: `headgate websub 'https://www.youtube.com/xml/feeds/videos.xml?channel_id=…' --hub https://pubsubhubbub.appspot.com/ --callback <the URL of the table> --secret-file …`. It subscribes, and renews the subscription before it ends.",
      'By hand: on pubsubhubbub.appspot.com/subscribe enter the URL of the table, the topic `https://www.youtube.com/xml/feeds/videos.xml?channel_id=…` and a secret, and subscribe; again before the lease ends.',
    ],
    example: ({ id, nowMs }) => atom(`yt:video:${id.slice(0, 11)}`, 'Café ☕', isoSeconds(nowMs)),
  }),
];
