/** Slack. */
import { known, page, ran, report, vector } from '../evidence.ts';
import type { Sender } from '../sender.ts';
import { v0 } from '../timestamped.ts';

export const slack: Sender = v0({
  id: 'slack',
  name: 'Slack',
  toleranceS: 300,
  headers: ['X-Slack-Signature', 'X-Slack-Request-Timestamp'],
  secret: { what: 'the app’s signing secret', where: 'the app → Basic Information → App Credentials' },
  delivery: known(
    { fields: [['event_id']] },
    page('api.slack.com/types/event and docs.slack.dev, “The Events API”', 'November 2026'),
  ),
  answer: {
    what: 'a 2xx within 3 seconds',
    from: page('api.slack.com/types/event and docs.slack.dev, “The Events API”', 'November 2026'),
  },
  evidence: {
    signature: [
      ran('@slack/bolt'),
      ran('slack_sdk'),
      vector('docs.slack.dev, “Verifying requests from Slack”'),
    ],
    handshake: ran('@slack/bolt'),
    rotation: report('docs.gitguardian.com, “Slack Signing Secret”: Regenerate, beside the secret'),
    event: report('the catalogue of webhook sources of trigger.dev, August 2026'),
  },
  retries: {
    when: 'three times: at once, after one minute and after five',
    afterS: [1, 61, 361],
    signed: 'unsaid',
    from: [
      report('an article of Classmethod about the repetitions of Slack’s Events API'),
      report('api-evangelist/slack, its description of the events, August 2026'),
    ],
  },
  steps: [
    'On api.slack.com open the app → Event Subscriptions and switch events on.',
    'Request URL: the URL of the table. Subscribe to the events and save.',
  ],
  notes: [
    "Slash commands and interactive messages are signed in the same way but are forms: give them a table of their own with `format = 'form'`.",
  ],
  example: ({ id, nowMs }) => ({
    type: 'event_callback',
    team_id: 'T123ABC456',
    event_id: `Ev${id.slice(0, 10).toUpperCase()}`,
    event_time: Math.floor(nowMs / 1000),
    event: { type: 'message', channel: 'C123ABC456', user: 'U123ABC456', text: 'Grüße ☕' },
  }),
});
