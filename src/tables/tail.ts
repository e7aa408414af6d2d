/** Types only: outcomes of requests on their way to those who watch. Plain values; the console's page reads them too. */

/** What became of one request, as those who watch see it: nothing of its body or of its headers. */
export interface TailLine {
  readonly atMs: number;
  readonly database: string;
  readonly schema: string;
  /** '': its path led to no table. */
  readonly table: string;
  readonly door: 'http' | 'websocket';
  /** 0: a batch of a WebSocket, which has none. */
  readonly status: number;
  readonly code: string;
  readonly rows: number;
  /** Of the body as it was announced; null: it was not. */
  readonly bytes: number | null;
  readonly ms: number;
  readonly address: string;
}

/** Lines since the last time; `skipped`: so many more came than are told. */
export interface TailBatch {
  readonly lines: readonly TailLine[];
  readonly skipped: number;
}

/** Where outcomes come from, in this process or in others. */
export interface TailSource {
  /** Begins with what is remembered, in the order in which it came. What is returned ends it. */
  watch(told: (batch: TailBatch) => void): () => void;
}
