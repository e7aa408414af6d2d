/**
 * The option `sns_topics`: the AWS SNS topics that a table accepts. Every topic of a region is signed with the same
 * certificate, whoever owns it, so it is the list that tells one's own messages apart. Takes the option, or a body;
 * returns topics, or null if it is not valid. Pure.
 */
import { limits } from '../config/limits.ts';

export interface Topic {
  readonly arn: string;
  readonly region: string;
  /** The host of the service in that part of AWS. */
  readonly host: string;
}

const arnForm =
  /^arn:(aws|aws-cn|aws-us-gov):sns:([a-z]{2,4}(?:-[a-z]{2,12}){1,3}-\d{1,2}):\d{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?$/;

function parseTopic(text: string): Topic | null {
  const [arn, partition, region] = arnForm.exec(text) ?? [];
  if (arn === undefined || region === undefined) return null;
  return { arn, region, host: `sns.${region}.amazonaws.com${partition === 'aws-cn' ? '.cn' : ''}` };
}

/** Comma-separated; null: one of them is not a topic, or there are too many. */
export function parseTopics(text: string): ReadonlyMap<string, Topic> | null {
  const topics = new Map<string, Topic>();
  for (const word of text.split(',')) {
    const topic = parseTopic(word.trim());
    if (topic === null || topics.size === limits.snsTopicsMax) return null;
    topics.set(topic.arn, topic);
  }
  return topics;
}

/** The option `event_grid_subscriptions`: comma-separated names, in any case; null: absent, one is not valid, or there are too many. */
export function parseSubscriptions(text: unknown): ReadonlySet<string> | null {
  if (typeof text !== 'string') return null;
  const names = text.split(',').map((word) => word.trim().toLowerCase());
  const good = names.every((name) => /^[a-z0-9-]{3,64}$/.test(name));
  return good && names.length <= limits.eventGridSubscriptionsMax ? new Set(names) : null;
}

export type SnsMessage = Readonly<Record<string, unknown>>;

/** null: the body is too large, or not a JSON object. */
export function readMessage(body: Buffer): SnsMessage | null {
  if (body.length > limits.snsMessageBytesMax) return null;
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as SnsMessage)
      : null;
  } catch {
    return null;
  }
}

/** The type is the last field of the signed text, after the topic. */
const types = new Set<unknown>(['Notification', 'SubscriptionConfirmation', 'UnsubscribeConfirmation']);

/**
 * The topic of a message, if it is one of these. The fields of the signed text are separated by line breaks, and whoever
 * publishes to any topic may write line breaks into a message: only because the type is one of SNS's own, the topic before it
 * is the one that SNS has signed.
 */
export function topicOf(message: SnsMessage | null, topics: ReadonlyMap<string, Topic>): Topic | null {
  const arn = message?.['TopicArn'];
  return typeof arn === 'string' && types.has(message?.['Type']) ? (topics.get(arn) ?? null) : null;
}
