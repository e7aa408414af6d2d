/**
 * The receiver of the settings, as OTLP over HTTP has it (https://opentelemetry.io/docs/specs/otlp/#otlphttp-response): takes a message, returns what
 * became of it, and never rejects. Reports once for consecutive failures that are all the same, and when it works again.
 */
import { retryAfterMs } from '../access/outgoing.ts';
import type { HttpPost, OutgoingResponse } from '../access/outgoing.ts';
import type { Observe } from '../observe/observations.ts';

/** `rejected`: how many parts of the message the receiver did not take; `afterMs` null: it does not say when to come again. */
export type Sent =
  | { readonly kind: 'accepted'; readonly rejected: number }
  | { readonly kind: 'later'; readonly afterMs: number | null }
  | { readonly kind: 'too large' | 'refused' };

interface OtlpReceiverOptions {
  readonly what: 'traces' | 'metrics';
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON of the resource, and of what made the spans or metrics. */
  readonly resource: string;
  readonly scope: string;
  readonly post: HttpPost;
  readonly observe: Observe;
  /** ms since 1970 */
  readonly now: () => number;
}

const retryable = new Set([429, 502, 503, 504]);

export class OtlpReceiver {
  readonly #options: OtlpReceiverOptions;
  #failure = '';

  constructor(options: OtlpReceiverOptions) {
    this.#options = options;
  }

  /** JSON: a part of each message. */
  get resource(): string {
    return this.#options.resource;
  }

  get scope(): string {
    return this.#options.scope;
  }

  async post(json: string, signal: AbortSignal): Promise<Sent> {
    const { url, headers, post, now } = this.#options;
    let answer: OutgoingResponse;
    try {
      answer = await post(url, headers, json, signal);
    } catch (error) {
      if (!signal.aborted) this.#failed(error instanceof Error ? error.message : String(error));
      return { kind: 'later', afterMs: null };
    }
    const { status } = answer;
    if (status >= 200 && status < 300) {
      const rejected = rejectedOf(answer.body);
      if (rejected > 0) this.#failed('the receiver has refused a part');
      else this.#works();
      return { kind: 'accepted', rejected };
    }
    this.#failed(`${url.hostname}: it answered ${status}`);
    if (status === 413) return { kind: 'too large' };
    return retryable.has(status)
      ? { kind: 'later', afterMs: retryAfterMs(answer, now()) }
      : { kind: 'refused' };
  }

  #failed(reason: string): void {
    const { observe, what } = this.#options;
    if (reason !== this.#failure) observe({ kind: 'telemetry.failed', what, reason });
    this.#failure = reason;
  }

  #works(): void {
    const { observe, what } = this.#options;
    if (this.#failure !== '') observe({ kind: 'telemetry.works', what });
    this.#failure = '';
  }
}

/** Of the answer's `partialSuccess`, if it has any; its numbers may be texts. */
function rejectedOf(body: Buffer): number {
  const [, count = '0'] =
    /"rejected(?:Spans|DataPoints)"\s*:\s*"?(\d{1,15})/.exec(body.toString('latin1')) ?? [];
  return Number(count);
}
