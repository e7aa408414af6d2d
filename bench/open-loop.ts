/**
 * Signed events that are due at regular intervals whether or not earlier ones were answered, sent by a separate process.
 */
import { runJson, script } from './processes.ts';
import type { RawJob } from './raw-load.ts';
import type { LoadResult } from './service.ts';
import { body, signedHeaders } from './signed.ts';

export interface OpenLoop extends Pick<RawJob, 'url' | 'connections' | 'seconds' | 'warmUpSeconds'> {
  readonly perSecond: number;
}

/** Preceded by a second of the same load that is not counted, unless specified otherwise. */
export function openLoop(loop: OpenLoop): Promise<LoadResult> {
  const job: RawJob = { warmUpSeconds: 1, ...loop, headers: signedHeaders(body), body };
  return runJson<LoadResult>(script('./raw-load.js'), job);
}
