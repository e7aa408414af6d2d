/**
 * RisingWave's error messages, with their place in its public source (risingwavelabs/risingwave at 448c6570b1b). Its ErrorResponse
 * has severity, code and message, and nothing else: neither position nor detail nor hint (`write_err_or_notice`,
 * src/utils/pgwire/src/pg_message.rs). The code is XX000 except for names (`ErrorOrNoticeMessage::error`,
 * src/utils/pgwire/src/error_or_notice.rs).
 */
import { message, zeroEnded } from '../../../src/kit/postgres-message.ts';

/** src/common/src/lib.rs: PG_VERSION and current_cluster_version(). */
export const serverVersion = '13.14.0';
export const versionText = `PostgreSQL ${serverVersion}-RisingWave-3.2.0-alpha (stand-in)`;

/** BEGIN without READ ONLY (handle_begin, src/frontend/src/handler/transaction.rs). */
export const noTransaction =
  'Read-write transaction is not supported yet. Please specify `READ ONLY` to start a read-only transaction.\n' +
  'For compatibility, this statement will still succeed but no transaction is actually started.';

/** src/frontend/src/handler/prepared_statement.rs */
export const noPrepare = (word: string): string =>
  `\`${word}\` is not supported yet.\nFor compatibility, this statement will still succeed but no changes are actually made.`;

export interface Said {
  readonly code: string;
  readonly message: string;
}

/**
 * As PsqlError prints it for the simple and the extended protocol (src/utils/pgwire/src/error.rs); causes from the outermost in.
 */
export function failed(
  how: 'run the query' | 'prepare the statement' | 'execute the statement',
  causes: readonly string[],
  code = 'XX000',
): Said {
  const [only = ''] = causes;
  const listed =
    causes.length < 2
      ? `Caused by:\n  ${only}`
      : `Caused by these errors (recent errors listed first):\n${causes.map((it, i) => `  ${i + 1}: ${it}`).join('\n')}`;
  return { code, message: `Failed to ${how}\n\n${listed}\n` };
}

/** The parser's error: parse_statement, src/sqlparser/src/parser.rs. */
export const notParsed = (expected: string, found: string): string =>
  `sql parser error: expected ${expected}, found: ${found}`;

/** src/error/src/common.rs */
export const notImplemented = (feature: string): string =>
  `Feature is not yet implemented: ${feature}\nNo tracking issue yet. Feel free to submit a feature request at https://github.com/risingwavelabs/risingwave/issues/new`;

export function errorResponse({ code, message: text }: Said, severity = 'ERROR'): Buffer {
  return message('E', field('S', severity), field('C', code), field('M', text), Buffer.of(0));
}

export function noticeResponse(text: string): Buffer {
  return message('N', field('S', 'NOTICE'), field('C', '00000'), field('M', text), Buffer.of(0));
}

const field = (name: string, value: string): Buffer => Buffer.concat([Buffer.from(name), zeroEnded(value)]);
