/** Microsoft Graph and SharePoint. */
import { code, page, silent } from '../evidence.ts';
import { field } from '../expressions.ts';
import { type Sender, same } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { chosen, tokenInBody } from '../token-forms.ts';

interface Notification {
  readonly value: readonly object[];
}

const clientStates = (document: Record<string, unknown>, clientState: string) => ({
  value: (document as unknown as Notification).value.map((item) => ({ ...item, clientState })),
});

const clientState = {
  value: field('value,0,clientState'),
  put: clientStates,
  notes: [
    'One request may contain several notifications; only the first one’s `clientState` is compared, because anyone who knows it could write it into all of them.',
  ],
};

export const microsoft: readonly Sender[] = [
  tokenInBody({
    id: 'microsoft_graph',
    aliases: ['graph', 'outlook', 'onedrive'],
    name: 'Microsoft Graph change notifications',
    secret: chosen('the text of `clientState`, at most 128 characters'),
    evidence: {
      signature: page(
        'microsoft-graph-docs-contrib, “Receive change notifications through webhooks”',
        'November 2026',
      ),
      handshake: page(
        'microsoft-graph-docs-contrib, “Receive change notifications through webhooks”',
        'November 2026',
      ),
      secret: code('microsoftgraph/microsoft-graph-docs-contrib 09455a6, changenotification.md'),
      event: code('microsoftgraph/microsoft-graph-docs-contrib 09455a6, changenotification.md'),
      rotation: silent('learn.microsoft.com/graph/change-notifications-delivery-webhooks'),
    },
    delivery: {
      kind: 'unverified',
      id: { ofEach: 'id' },
      said: 'Microsoft Graph calls `id` the unique id of a notification, optional, and does not say whether a repeated one has the same',
      from: code('microsoftgraph/microsoft-graph-docs-contrib 09455a6, changenotification.md'),
    },
    retries: {
      when: 'for up to 4 hours, more and more rarely',
      signed: 'as at first',
      lastS: 4 * 3_600,
      from: page('learn.microsoft.com/graph/change-notifications-delivery-webhooks', 'November 2026'),
    },
    answer: {
      what: 'a 2xx within 3 seconds',
      from: page('learn.microsoft.com/graph/change-notifications-delivery-webhooks', 'November 2026'),
    },
    events: { what: 'notification', at: ['value'] },
    steps: [
      'Create subscriptions through the API: `POST /subscriptions` with `notificationUrl`, the URL of the table, `lifecycleNotificationUrl`, the same, and `clientState`, the text of the secret. Renew them before they end.',
    ],
    ...clientState,
    notes: [
      ...clientState.notes,
      'The tokens of rich notifications (`validationTokens`) are not checked, nor is encrypted content decrypted.',
    ],
    makeSecret: (random) => same(random(24).toString('base64url')),
    example: ({ id, nowMs }) => ({
      value: [
        {
          subscriptionId: uuid(id),
          subscriptionExpirationDateTime: isoTime(nowMs + 86_400_000),
          changeType: 'created',
          resource: `Users/${uuid(id)}/Messages/${id}`,
          tenantId: uuid(id),
        },
      ],
    }),
  }),
  tokenInBody({
    id: 'sharepoint',
    name: 'SharePoint lists',
    secret: chosen('the text of `clientState`'),
    evidence: {
      handshake: page('SharePoint/sp-dev-docs, “Overview of SharePoint webhooks”', 'November 2026'),
    },
    events: { what: 'notification', at: ['value'] },
    steps: [
      'Create subscriptions through the API: `POST /_api/web/lists(…)/subscriptions` with `notificationUrl`, the URL of the table, and `clientState`. Renew them before they end.',
    ],
    ...clientState,
    example: ({ id, nowMs }) => ({
      value: [
        {
          subscriptionId: uuid(id),
          expirationDateTime: isoTime(nowMs + 86_400_000),
          resource: uuid(id),
          siteUrl: '/',
          webId: uuid(id),
        },
      ],
    }),
  }),
];
