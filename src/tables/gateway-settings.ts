/** The rows of settings for whom the events gateway works as. */
import { BadSetting, setting } from './setting.ts';
import type { Parse } from './setting.ts';

/** PostgreSQL cuts off what is longer, and ends a name with a zero byte. */
const roleName: Parse<string> = (t) => {
  if (t === '' || Buffer.byteLength(t) > 63 || t.includes('\0')) {
    throw new BadSetting('must be the name of a role, of 1 to 63 bytes');
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
    'role of the embedded engine that the events gateway runs SQL as; default: headgate_gateway, which Headgate makes and which is no superuser',
  ),
} as const;
