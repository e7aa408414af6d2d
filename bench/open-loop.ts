/** Signed events that are due at even distances whether or not earlier ones were answered, sent by a process of its own. */
import { runJson, script } from './processes.ts';
import type { RawJob } from './raw-load.ts';
import type { LoadResult } from './service.ts';
import { body, signedHeaders } from './signed.ts';

export interface OpenLoop extends Pick<RawJob, 'url' | 'connections' | 'seconds' | 'warmUpSeconds'> {
  readonly perSecond: number;
}

/** A second of the same goes before what is counted, where nothing else is said. */
export function openLoop(loop: OpenLoop): Promise<LoadResult> {
  const job: RawJob = { warmUpSeconds: 1, ...loop, headers: signedHeaders(body), body };
  return runJson<LoadResult>(script('./raw-load.js'), job);
}
