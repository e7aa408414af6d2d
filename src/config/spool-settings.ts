/** The settings for webhooks that are accepted while the database is unreachable. */
import { integer, oneOf, setting, text } from './setting.ts';

const mebibyte = 1024 * 1024;

export const spoolSettings = {
  spool: setting(
    'spool',
    'HEADGATE_SPOOL',
    'WHEN',
    'off' as 'off' | 'fallback',
    oneOf('off', 'fallback'),
    'fallback: keep webhooks on disk while the database is unreachable, for tables that do not say otherwise; off: answer 503',
  ),
  spoolDir: setting<string | null>(
    'spool-dir',
    'HEADGATE_SPOOL_DIR',
    'DIR',
    null,
    text,
    'directory for these webhooks; default <data-dir>/spool',
  ),
  spoolBytesMax: setting<number>(
    'spool-bytes',
    'HEADGATE_SPOOL_BYTES',
    'BYTES',
    1024 * mebibyte,
    integer(16 * mebibyte, 1024 * 1024 * mebibyte),
    'maximum size of the files there, in bytes; beyond it senders get 503',
  ),
  spoolHours: setting<number>(
    'spool-age',
    'HEADGATE_SPOOL_AGE',
    'HOURS',
    72,
    integer(1, 8_760),
    'how long a table may spool before it accepts no more requests, in hours; nothing is deleted because of its age',
  ),
  spoolTrustSeconds: setting<number>(
    'spool-trust',
    'HEADGATE_SPOOL_TRUST',
    'SECONDS',
    900,
    integer(0, 86_400),
    'how long checks and secrets are used without confirmation by the database, in seconds; then senders get 503',
  ),
} as const;
