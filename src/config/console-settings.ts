/** The settings for the console. */
import { BadSetting, oneOf, setting } from './setting.ts';
import type { Parse } from './setting.ts';

const hostNames: Parse<readonly string[]> = (t) => {
  const names = t.split(',').map((name) => name.trim().toLowerCase());
  if (!names.every((name) => /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:\d{1,5})?$/.test(name)))
    throw new BadSetting(
      'must contain names such as headgate.example.com or 10.0.0.5:4561, separated by commas',
    );
  return names;
};

export const consoleSettings = {
  console: setting(
    'console',
    'HEADGATE_CONSOLE',
    'WORD',
    'auto' as 'auto' | 'on' | 'off',
    oneOf('auto', 'on', 'off'),
    'the web console on the admin port: on, off, or auto: on if that port is on loopback',
  ),
  consoleHosts: setting<readonly string[]>(
    'console-hosts',
    'HEADGATE_CONSOLE_HOSTS',
    'LIST',
    [],
    hostNames,
    'additional host names that the console answers to, with or without a port; localhost and loopback addresses always work',
  ),
} as const;
