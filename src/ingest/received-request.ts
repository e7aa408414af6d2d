/** A webhook request whose body has been read, as VALIDATE and decode take it. Its headers become strings only when something reads them. */
import type { Arrival, CheckRequest, DecodeRequest, HeaderReader } from '../types/request.ts';

export class ReceivedRequest implements CheckRequest, DecodeRequest {
  readonly body: Buffer;
  readonly #arrival: Arrival;

  constructor(arrival: Arrival, body: Buffer) {
    this.#arrival = arrival;
    this.body = body;
  }

  get method(): string {
    return this.#arrival.method;
  }

  get target(): string {
    return this.#arrival.target;
  }

  get encodedBody(): Buffer | undefined {
    return this.#arrival.encodedBody;
  }

  get rawHeaders(): readonly string[] {
    return this.#arrival.rawHeaders;
  }

  get header(): HeaderReader | undefined {
    return this.#arrival.header;
  }

  get arrivedAtMs(): number {
    return this.#arrival.arrivedAtMs;
  }

  get remoteAddress(): string {
    return this.#arrival.remoteAddress;
  }

  get traceparent(): string | undefined {
    return this.#arrival.traceparent;
  }
}
