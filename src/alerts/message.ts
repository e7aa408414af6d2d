/**
 * The body that is POSTed: Headgate's own JSON, or the text form of Slack. Takes conditions, returns a body. It holds names of tables,
 * counts and times, and nothing of any request. Names are chosen by users: control characters are replaced, and nothing in them acts as
 * Slack markup. Pure.
 */
import { limits } from '../config/limits.ts';
import type { AlertCondition } from './conditions.ts';

interface AlertOrigin {
  readonly version: string;
  /** The host name of the machine. */
  readonly host: string;
}

export interface Receiver {
  readonly url: URL;
  readonly form: 'auto' | 'json' | 'slack';
}

export function messageFor(
  { url, form }: Receiver,
  conditions: readonly AlertCondition[],
  from: AlertOrigin,
  nowMs: number,
): string {
  const isSlack = form === 'slack' || (form === 'auto' && url.hostname === 'hooks.slack.com');
  return isSlack ? slackMessage(conditions, from) : jsonMessage(conditions, from, nowMs);
}

const trial = 'HeadgateTrial';

/** A condition that is over from the start, so that a receiver that pages people pages nobody. */
export function trialMessage(receiver: Receiver, from: AlertOrigin, nowMs: number): string {
  const rule = { name: trial, severity: 'warning', holdMs: 0, wrong: () => [] } as const;
  const says = 'nothing is wrong: headgate doctor --alert tests whether alerts arrive here';
  const times = { sinceMs: nowMs, lastMs: nowMs };
  return messageFor(receiver, [{ rule, labels: {}, says, ...times, state: 'over', told: true }], from, nowMs);
}

function jsonMessage(
  conditions: readonly AlertCondition[],
  { version, host }: AlertOrigin,
  nowMs: number,
): string {
  const told = conditions.slice(0, limits.alertToldMax);
  return JSON.stringify({
    version: 1,
    headgate: version,
    host,
    at: new Date(nowMs).toISOString(),
    alerts: told.map((it) => ({
      alert: it.rule.name,
      state: stateOf(it),
      severity: it.rule.severity,
      since: new Date(it.sinceMs).toISOString(),
      labels: Object.fromEntries(Object.entries(it.labels).map(([name, value]) => [name, plain(value)])),
      summary: plain(summaryOf(it)),
      runbook: runbookOf(it),
    })),
    more: conditions.length - told.length,
  });
}

function slackMessage(conditions: readonly AlertCondition[], { host }: AlertOrigin): string {
  const told = conditions.slice(0, limits.alertToldMax);
  const lines = told.map((it) => {
    const where = Object.values(it.labels).join('.');
    const head = `${stateOf(it) === 'firing' ? ':rotating_light:' : ':white_check_mark: over:'} ${it.rule.name}`;
    return escaped(plain([head, where, summaryOf(it)].filter((part) => part !== '').join(' · ')));
  });
  const more = conditions.length - told.length;
  if (more > 0) lines.push(`… and ${more} more`);
  return JSON.stringify({ text: `Headgate on ${escaped(plain(host))}\n${lines.join('\n')}` });
}

const stateOf = ({ state }: AlertCondition): 'firing' | 'resolved' =>
  state === 'over' ? 'resolved' : 'firing';

/** What was wrong is told as what was said of it: a rule has one sentence, for as long as it holds. */
const summaryOf = ({ rule, state, says }: AlertCondition): string =>
  state === 'over' && rule.name !== trial ? `it is over. It was: ${says}` : says;

const runbookOf = ({ rule }: AlertCondition): string =>
  `docs/operating/monitoring.md#${rule.name.toLowerCase()}`;

function plain(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?').slice(0, 500);
}

/** The three characters that Slack treats as markup. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
