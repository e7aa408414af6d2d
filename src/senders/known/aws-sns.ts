/** AWS SNS. */
import { code, known, page, unfound } from '../evidence.ts';
import { sign } from 'node:crypto';
import { body } from '../expressions.ts';
import { forms } from '../secret-forms.ts';
import { type Sender, sender } from '../sender.ts';
import { isoTime, numeric, privateKey, privateText, publicPem, rsaPair, uuid } from '../signing.ts';

/** The fields of an SNS message that are signed, in this order; the optional ones only if they are present. */
const snsFields = [
  'Message',
  'MessageId',
  'Subject?',
  'SubscribeURL?',
  'Timestamp',
  'Token?',
  'TopicArn',
  'Type',
];

const snsSigned = snsFields
  .map((name) => {
    const key = name.replace('?', '');
    const lines = `'${key}' || E'\\n' || (${body}->>'${key}') || E'\\n'`;
    return name.endsWith('?') ? `coalesce(${lines}, '')` : lines;
  })
  .join('\n      || ');

/**
 * The type ends the signed text. It may not be longer than it is at SNS: whatever follows in another topic's text, with that
 * topic's ARN in it, would otherwise pass for the rest of the type.
 */
const snsTyped = `${body}->>'Type' IN ('Notification', 'SubscriptionConfirmation', 'UnsubscribeConfirmation')`;

function snsText(message: Readonly<Record<string, unknown>>): string {
  return snsFields
    .map((name) => name.replace('?', ''))
    .filter((key) => message[key] !== undefined)
    .map((key) => `${key}\n${String(message[key])}\n`)
    .join('');
}

export const awsSns: Sender = sender('A public key', {
  id: 'aws_sns',
  aliases: ['amazon_sns', 'sns'],
  secretForm: forms.pem,
  name: 'AWS SNS',
  headers: [],
  signatureHeader: null,
  signsBody: false,
  secret: {
    what: 'the signing certificate or its public key (PEM)',
    where: 'at the `SigningCertURL` of a message, on a host such as sns.eu-west-1.amazonaws.com',
  },
  delivery: known(
    { fields: [['MessageId']] },
    page('docs.aws.amazon.com/sns, “HTTP/HTTPS headers” and “Message formats”', 'November 2026'),
  ),
  retries: {
    when: 'three times, 20 seconds apart, or as the topic’s delivery policy says, for an hour at most',
    afterS: [20, 40, 60],
    signed: 'unsaid',
    from: page('docs.aws.amazon.com/sns, “Amazon SNS message delivery retries”', 'November 2026'),
  },
  answer: {
    what: 'a 2xx within 15 seconds; a 4xx other than 429 is final',
    from: page(
      'docs.aws.amazon.com/sns, “Amazon SNS message delivery retries” and “Make sure your endpoint is ready to process Amazon SNS messages”',
      'November 2026',
    ),
  },
  evidence: {
    signature: code('aws/aws-js-sns-message-validator, index.js'),
    secret: code('aws/aws-js-sns-message-validator, index.js'),
    rotation: unfound(),
    handshake: code('aws/aws-js-sns-message-validator, index.js'),
    event: page('docs.aws.amazon.com/sns, “HTTP/HTTPS headers” and “Message formats”', 'November 2026'),
  },
  steps: [
    "Start Headgate with `HEADGATE_CONFIRM_SUBSCRIPTIONS=sns`. Create the secret without a value, `CREATE SECRET aws_sns_secret WITH (backend = 'meta', learn = '1 day')`, and name the topics: `CREATE TABLE aws_sns_events (data JSONB) WITH (connector = 'webhook', sns_topics = 'arn:aws:sns:eu-west-1:123456789012:orders') VALIDATE SECRET aws_sns_secret USING aws_sns`.",
    'Create a subscription to the topic: protocol HTTPS, endpoint the URL of the table, raw message delivery off. Headgate fetches the certificate of the first message, checks the message, stores it, and confirms the subscription: the log contains `sns.confirmed`, or the reason why not.',
    "By hand, if Headgate must not call anybody: create the table with any certificate, and create the subscription. Its confirmation is refused and kept. Find out where the certificate is, `SELECT convert_from(body, 'UTF8')::jsonb->>'SigningCertURL' FROM headgate.rejected_requests WHERE table_name = 'aws_sns_events' ORDER BY id DESC LIMIT 1`, check that the host is `sns.<your region>.amazonaws.com`, fetch it, and `ALTER SECRET aws_sns_secret AS '-----BEGIN CERTIFICATE-----…'`. Then choose Request confirmation in the SNS console: it is now stored. Check that the host of `data->>'SubscribeURL'` is on amazonaws.com, too, and open it.",
  ],
  notes: [
    'The signature covers the fields Message, MessageId, Subject, SubscribeURL, Timestamp, Token, TopicArn and Type, with SHA-1 or, with SignatureVersion 2, SHA-256.',
    'AWS replaces the certificate from time to time. With `HEADGATE_CONFIRM_SUBSCRIPTIONS=sns` and a secret that was created with `learn`, Headgate replaces it automatically; otherwise use `ALTER SECRET`.',
    'Any topic of any account in the region signs with the same certificate: with `sns_topics`, messages of other topics are refused; without it, compare `TopicArn` in your own VALIDATE.',
  ],
  contentType: 'text/plain; charset=UTF-8',
  expression: (s) =>
    `${snsTyped}\n  AND rsa_verify(${s},\n  convert_to(${snsSigned}, 'UTF8'),\n  decode(${body}->>'Signature', 'base64'),\n  ` +
    `CASE ${body}->>'SignatureVersion' WHEN '2' THEN 'sha256' ELSE 'sha1' END)`,
  sign: ({ body, signingKey }) => {
    const message = JSON.parse(body.toString()) as Record<string, unknown>;
    const hash = message['SignatureVersion'] === '2' ? 'sha256' : 'sha1';
    const signature = sign(hash, Buffer.from(snsText(message)), privateKey(signingKey)).toString('base64');
    return {
      headers: { 'x-amz-sns-message-type': String(message['Type']) },
      body: Buffer.from(JSON.stringify({ ...message, Signature: signature })),
    };
  },
  paired: true,
  makeSecret: () => {
    const pair = rsaPair();
    return { secret: publicPem(pair.publicKey), signingKey: privateText(pair.privateKey) };
  },
  example: ({ id, nowMs }) => ({
    Type: 'Notification',
    MessageId: uuid(id),
    TopicArn: 'arn:aws:sns:eu-west-1:123456789012:orders',
    Subject: 'Order ☕',
    Message: JSON.stringify({ order: numeric(id) }),
    Timestamp: isoTime(nowMs),
    SignatureVersion: '2',
    SigningCertURL:
      'https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-7506a1e35b36ef5a444dd1a8e7cc3ed8.pem',
  }),
});
