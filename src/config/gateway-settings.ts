/** The settings for the role that the events gateway uses. */
import { BadSetting, setting } from './setting.ts';
import type { Parse } from './setting.ts';

/** PostgreSQL truncates longer names, and ends a name at a zero byte. */
const roleName: Parse<string> = (t) => {
  if (t === '' || Buffer.byteLength(t) > 63 || t.includes('\0')) {
    throw new BadSetting('must be the name of a role, 1 to 63 bytes long');
  }
  return t;
};

export const gatewaySettings = {
  eventsRole: setting<string | null>(
    'events-role',
    'HEADGATE_EVENTS_ROLE',
    'ROLE',
    null,
    roleName,
    'role of the embedded engine that the events gateway runs SQL as; default: headgate_gateway, which Headgate creates and which is not a superuser',
  ),
} as const;
