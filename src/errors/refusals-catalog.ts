/**
 * Refusals that a sender does not try again, and that come from what Headgate holds of the catalog: none of them is given because of what was known before
 * the request arrived (decision 0230). Others that the catalog decides, such as `not_found`, `key_missing` and `token_required`, are given by a stage
 * that has just asked the engine.
 */
import type { RefusalCode } from './refusals.ts';

export const ofCatalog: ReadonlySet<RefusalCode> = new Set<RefusalCode>([
  'signature_failed',
  'method_not_allowed',
  'websocket_unsupported',
  'body_not_json',
  'payload_undecodable',
  'no_column_matched',
  'key_unknown',
  'delivery_id_missing',
  'version_missing',
  'row_refused',
]);
