/** The settings for alerts. */
import { isLoopbackHost } from '../kit/address.ts';
import { BadSetting, integer, oneOf, setting } from './setting.ts';
import type { Parse } from './setting.ts';

const alertUrl: Parse<string> = (t) => {
  const url = URL.canParse(t) ? new URL(t) : null;
  const isPlain = url?.protocol === 'http:';
  if (url === null || !(isPlain || url.protocol === 'https:'))
    throw new BadSetting('must be an https:// URL');
  if (url.username !== '' || url.password !== '' || url.hash !== '')
    throw new BadSetting('must not contain a user, password or fragment');
  if (isPlain && !isLoopbackHost(url.hostname))
    throw new BadSetting('must be an https:// URL, or http:// to this machine (127.0.0.1, ::1 or localhost)');
  return url.href;
};

export const alertSettings = {
  alertUrl: setting<string | null>(
    null,
    'HEADGATE_ALERT_URL',
    'URL',
    null,
    alertUrl,
    'URL that alerts, and their end, are POSTed to (docs/operating/alerts.md): https, or http to this machine; unset: no alerts',
    true,
  ),
  alertForm: setting(
    'alert-form',
    'HEADGATE_ALERT_FORM',
    'WORD',
    'auto' as 'auto' | 'json' | 'slack',
    oneOf('auto', 'json', 'slack'),
    "json; slack: a text, as Slack, Mattermost and others accept it; auto: slack if the URL's host is hooks.slack.com",
  ),
  alertSeconds: setting(
    'alert-seconds',
    'HEADGATE_ALERT_SECONDS',
    'SECONDS',
    15,
    integer(1, 3_600),
    'how often to check for problems, in seconds',
  ),
} as const;
