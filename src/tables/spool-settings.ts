/** The rows of settings for webhooks that are taken while the database is away. */
import { integer, oneOf, setting, text } from './setting.ts';

const mebibyte = 1024 * 1024;

export const spoolSettings = {
  spool: setting(
    'spool',
    'HEADGATE_SPOOL',
    'WHEN',
    'off' as 'off' | 'fallback',
    oneOf('off', 'fallback'),
    'fallback: webhooks of tables that do not say otherwise are kept on disk while the database is away; off: 503',
  ),
  spoolDir: setting<string | null>(
    'spool-dir',
    'HEADGATE_SPOOL_DIR',
    'DIR',
    null,
    text,
    'where they are kept; default <data-dir>/spool',
  ),
  spoolBytesMax: setting<number>(
    'spool-bytes',
    'HEADGATE_SPOOL_BYTES',
    'BYTES',
    1024 * mebibyte,
    integer(16 * mebibyte, 1024 * 1024 * mebibyte),
    'what the files there may take, in bytes; past it senders read 503',
  ),
  spoolHours: setting<number>(
    'spool-age',
    'HEADGATE_SPOOL_AGE',
    'HOURS',
    72,
    integer(1, 8_760),
    'how long a table keeps webhooks there before it takes no more of them, in hours; nothing is deleted by age',
  ),
  spoolTrustSeconds: setting<number>(
    'spool-trust',
    'HEADGATE_SPOOL_TRUST',
    'SECONDS',
    900,
    integer(0, 86_400),
    'how long checks and secrets are believed that the database cannot confirm, in seconds; then senders read 503',
  ),
} as const;
