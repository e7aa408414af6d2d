/** DocuSign Connect. */
import { none, page, ran, report, unfound } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';

export const docusign: Sender = hmacBody({
  id: 'docusign',
  aliases: ['docusign_connect'],
  name: 'DocuSign Connect',
  encoding: 'base64',
  headers: ['X-DocuSign-Signature-1', 'X-DocuSign-Signature-2'],
  secret: { what: 'a Connect key', where: 'Settings → Connect → Connect Keys' },
  evidence: {
    signature: [
      ran('@trigger.dev/core'),
      page('developers.docusign.com, “How to validate an HMAC signature”', 'November 2026'),
    ],
    secret: ran('@trigger.dev/core'),
    retries: unfound(),
    event: report('api-evangelist/docusign, its description of the events, August 2026'),
    rotation: page('developers.docusign.com, “How to validate an HMAC signature”', 'November 2026'),
  },
  delivery: none(
    'DocuSign Connect sends no id of an event: retryCount in the body counts the attempts',
    report('api-evangelist/docusign, its description of the events, August 2026'),
  ),
  answer: {
    what: 'a 2xx within 5 seconds',
    from: page('developers.docusign.com/platform/webhooks/connect/implement', 'November 2026'),
  },
  steps: [
    'Open Settings → Connect → Connect Keys and add a key.',
    'Add a Connect configuration: the URL of the table, format JSON, “Include HMAC Signature” on.',
  ],
  notes: [
    'DocuSign sends one numbered header for each active key; the check reads the first two, so that a key can be changed.',
  ],
  expression: (s) =>
    [1, 2]
      .map(
        (n) =>
          `secure_compare(${header(`x-docusign-signature-${n}`)}, ${hmac(s, 'payload', 'sha256', 'base64')})`,
      )
      .join('\n  OR '),
  example: ({ id, nowMs }) => ({
    event: 'envelope-completed',
    generatedDateTime: isoTime(nowMs),
    data: { accountId: uuid(id), envelopeId: uuid(id) },
  }),
});
