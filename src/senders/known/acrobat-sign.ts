/** Adobe Acrobat Sign. */
import { page, report, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { tokenHeader } from '../token-forms.ts';

export const acrobatSign: Sender = tokenHeader('plain', {
  id: 'acrobat_sign',
  aliases: ['adobe_sign', 'echosign'],
  name: 'Adobe Acrobat Sign',
  headers: ['X-AdobeSign-ClientId'],
  secret: {
    what: 'the client id of the application',
    where: 'Account → Acrobat Sign API → API Applications',
  },
  delivery: unverified({ fields: [['webhookNotificationId']] }),
  evidence: {
    signature: report('public receivers'),
    handshake: page('helpx.adobe.com/sign, “Webhooks overview”', 'November 2026'),
  },
  steps: ['Open Account → Webhooks → + with the URL of the table, the scope and the events.'],
  notes: [
    'A client id is no secret among those who work with the application: a weak check, but all there is.',
  ],
  example: ({ id, nowMs }) => ({
    webhookId: uuid(id),
    webhookNotificationId: uuid(id),
    event: 'AGREEMENT_ACTION_COMPLETED',
    eventDate: isoTime(nowMs),
    agreement: { id: `CBJCHBCAABAA${id}`, name: 'Vertrag', status: 'SIGNED' },
  }),
});
