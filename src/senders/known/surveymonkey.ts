/** SurveyMonkey. */
import { code, unverified } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import { same, type Sender } from '../sender.ts';
import { isoTime, numeric } from '../signing.ts';

export const surveymonkey: Sender = hmacBody({
  id: 'surveymonkey',
  aliases: ['survey_monkey'],
  name: 'SurveyMonkey',
  algorithm: 'sha1',
  encoding: 'base64',
  headers: ['Sm-Signature'],
  secret: { what: 'client id and client secret as `id&secret`', where: 'the app’s settings' },
  delivery: unverified({ fields: [['event_id']] }),
  evidence: {
    signature: code('SurveyMonkey/public_api_docs fc28bbc, includes/_webhooks.md'),
    secret: code('SurveyMonkey/public_api_docs fc28bbc, includes/_webhooks.md'),
    event: code('SurveyMonkey/public_api_docs fc28bbc, includes/_webhooks.md'),
  },
  steps: [
    'Create webhooks through the API: `POST /v3/webhooks` with `subscription_url`, the URL of the table.',
  ],
  makeSecret: (random) => same(`${random(8).toString('hex')}&${random(16).toString('hex')}`),
  example: ({ id, nowMs }) => ({
    name: 'responses',
    event_type: 'response_completed',
    event_id: id,
    event_datetime: isoTime(nowMs),
    object_id: String(numeric(id)),
    resources: { survey_id: '1' },
  }),
});
