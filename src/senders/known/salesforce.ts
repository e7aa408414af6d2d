/** Salesforce outbound messages. */
import { none, page, report, unfound } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { tokenInQuery } from '../token-forms.ts';

export const salesforce: Sender = tokenInQuery('token', {
  id: 'salesforce',
  name: 'Salesforce outbound messages',
  contentType: 'text/xml; charset=utf-8',
  delivery: none(
    'a message of Salesforce contains up to 100 notifications, and only these have an Id, which they keep',
    page('developer.salesforce.com, “Understanding Notifications” (outbound messaging)', 'November 2026'),
    'Compare the Id of each notification before you act on it.',
  ),
  retries: {
    when: 'for 24 hours, at most every two hours',
    signed: 'unsaid',
    from: page(
      'developer.salesforce.com, “Understanding Notifications” (outbound messaging)',
      'November 2026',
    ),
  },
  answer: {
    what: 'its XML with `<Ack>true</Ack>`; no time is named',
    from: report('several public receivers, read in November 2026'),
  },
  evidence: { signature: report('public articles'), rotation: unfound() },
  steps: [
    'Open Setup → Workflow Actions → Outbound Messages → New: as endpoint URL the URL of the table followed by `?token=` and the text of the secret. Use it in a flow or a rule.',
  ],
  notes: [
    'Salesforce repeats a message for 24 hours until the answer is its XML with `<Ack>true</Ack>`, which is the answer to a committed message.',
    "The body is XML: with `format = 'text'` it is stored unchanged in a TEXT column. One message contains up to 100 notifications.",
  ],
  example: ({ id }) =>
    `<?xml version="1.0" encoding="UTF-8"?><soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"><soapenv:Body><notifications xmlns="http://soap.sforce.com/2005/09/outbound"><OrganizationId>00D000000000001EAA</OrganizationId><Notification><Id>${id.slice(0, 18)}</Id></Notification></notifications></soapenv:Body></soapenv:Envelope>`,
});
