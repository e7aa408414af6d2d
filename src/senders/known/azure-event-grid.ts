/** Azure Event Grid. */
import { page, unverified } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { tokenInQuery } from '../token-forms.ts';

export const azureEventGrid: Sender = tokenInQuery('code', {
  id: 'azure_event_grid',
  aliases: ['event_grid'],
  name: 'Azure Event Grid',
  delivery: unverified({ ofEach: 'id' }),
  events: { what: 'event' },
  evidence: {
    handshake: page(
      'MicrosoftDocs/azure-docs, “Azure Event Grid event schema” and “Endpoint validation”',
      'November 2026',
    ),
  },
  steps: [
    'Create an event subscription of the type Web Hook with the URL of the table followed by `?code=` and the text of the secret.',
    "Only if the table does not answer the validation (`ANSWER NONE`, or your own VALIDATE): start Headgate with `HEADGATE_CONFIRM_SUBSCRIPTIONS=event_grid`, and name the subscription, `ALTER TABLE azure_event_grid_events SET (event_grid_subscriptions = 'orders')`. Then Headgate stores the message and opens its `validationUrl`.",
  ],
  notes: [
    'Both schemas are understood, Event Grid’s and CloudEvents’. One request may be a list of events; it is stored as one row.',
  ],
  eventHeaders: () => ({ 'aeg-event-type': 'Notification', 'aeg-delivery-count': '0' }),
  example: ({ id, nowMs }) => [
    {
      id: uuid(id),
      topic: '/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/shop',
      subject: 'blobServices/default/containers/café',
      eventType: 'Microsoft.Storage.BlobCreated',
      eventTime: isoTime(nowMs),
      data: { api: 'PutBlob', contentLength: 1999 },
      dataVersion: '',
      metadataVersion: '1',
    },
  ],
});
