/** Adobe Acrobat Sign. */
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { tokenHeader } from '../token-forms.ts';

export const acrobatSign: Sender = tokenHeader('plain', {
  id: 'acrobat_sign',
  name: 'Adobe Acrobat Sign',
  headers: ['X-AdobeSign-ClientId'],
  secret: {
    what: 'the client id of the application',
    where: 'Account → Acrobat Sign API → API Applications',
  },
  deliveryId: { fields: [['webhookNotificationId']] },
  steps: ['Open Account → Webhooks → + with the URL of the table, the scope and the events.'],
  notes: [
    'A client id is no secret among those who work with the application: a weak check, but all there is.',
  ],
  source: 'Adobe’s overview of webhooks, and public receivers',
  example: ({ id, nowMs }) => ({
    webhookId: uuid(id),
    webhookNotificationId: uuid(id),
    event: 'AGREEMENT_ACTION_COMPLETED',
    eventDate: isoTime(nowMs),
    agreement: { id: `CBJCHBCAABAA${id}`, name: 'Vertrag', status: 'SIGNED' },
  }),
});
