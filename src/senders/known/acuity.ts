/** Acuity Scheduling. */
import { ran } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { formType, type Sender } from '../sender.ts';
import { numeric } from '../signing.ts';

export const acuity: Sender = hmacBody({
  id: 'acuity',
  aliases: ['acuity_scheduling'],
  name: 'Acuity Scheduling',
  encoding: 'base64',
  contentType: formType,
  headers: ['X-Acuity-Signature'],
  secret: { what: 'the API key', where: 'Integrations → API' },
  evidence: { signature: ran('acuityscheduling') },
  steps: ['Open Integrations → Webhooks with the URL of the table, or subscribe through the API.'],
  example: ({ id }) =>
    new URLSearchParams({
      action: 'appointment.scheduled',
      id: String(numeric(id)),
      calendarID: '1',
      appointmentTypeID: '2',
    }).toString(),
});
