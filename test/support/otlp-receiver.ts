/** A receiver of OpenTelemetry on loopback that keeps what it is sent, and answers as a test wants it. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onEnd } from './cleanup.ts';
import type { Scope } from './cleanup.ts';

type Value = { readonly stringValue?: string; readonly intValue?: number; readonly doubleValue?: number };

export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Value }[];
  readonly events: readonly { readonly name: string; readonly timeUnixNano: string }[];
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  readonly status: { readonly code?: number };
}

export class OtlpSink {
  readonly messages: {
    readonly path: string;
    readonly headers: IncomingHttpHeaders;
    readonly text: string;
  }[] = [];
  /** By default everything is accepted. */
  answer: (response: ServerResponse, spans: number) => void = (response) => response.end('{}');
  readonly #server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      const text = Buffer.concat(pieces).toString();
      this.messages.push({ path: request.url ?? '', headers: request.headers, text });
      this.answer(response, spansOf(text).length);
    });
  });

  static async open(t: Scope): Promise<OtlpSink> {
    const sink = new OtlpSink();
    sink.#server.listen(0, '127.0.0.1');
    await once(sink.#server, 'listening');
    onEnd(t, 'receiver', () => {
      sink.#server.closeAllConnections();
      sink.#server.close();
    });
    return sink;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** All spans, of accepted messages and others. */
  get spans(): readonly ReceivedSpan[] {
    return this.messages.flatMap(({ text }) => spansOf(text));
  }

  get requests(): readonly ReceivedSpan[] {
    return this.spans.filter(({ kind }) => kind === 2);
  }

  get commits(): readonly ReceivedSpan[] {
    return this.spans.filter(({ name }) => name === 'COMMIT');
  }
}

function spansOf(text: string): readonly ReceivedSpan[] {
  const read = JSON.parse(text) as {
    readonly resourceSpans?: readonly {
      readonly scopeSpans: readonly { readonly spans: ReceivedSpan[] }[];
    }[];
  };
  return (read.resourceSpans ?? []).flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
}

export function attributeOf(
  { attributes }: Pick<ReceivedSpan, 'attributes'>,
  key: string,
): string | number | undefined {
  const value = attributes.find((it) => it.key === key)?.value;
  return value?.stringValue ?? value?.intValue ?? value?.doubleValue;
}
