/** Outcomes of requests on their way to those who watch. Types, which the console's page reads too, and the path of a question that is no request. */

/** What became of one request, as those who watch see it: nothing of its body or of its headers. */
export interface TailLine {
  /** By which the request can be asked for as long as it is remembered. */
  readonly id: string;
  /** When it was answered, and when it arrived. */
  readonly atMs: number;
  readonly arrivedAtMs: number;
  readonly database: string;
  readonly schema: string;
  /** '': its path led to no table. */
  readonly table: string;
  /** pg_class.oid: a later table of that name is another one; absent if only the name was known. Those who watch are not told. */
  readonly oid?: number;
  readonly door: 'http' | 'websocket';
  /** 0: a batch of a WebSocket, which has none. */
  readonly status: number;
  readonly code: string;
  readonly rows: number;
  /** Of the body as it was announced; null: it was not. */
  readonly bytes: number | null;
  readonly ms: number;
  readonly address: string;
  /** Of its row of headgate.rejected_requests; absent: it has none. */
  readonly refusal?: string;
  /** By what it can be asked for; absent: nothing of it is held. */
  readonly held?: string;
  /** Of a request that led to no table, without its query. */
  readonly path?: string;
  /** Whose check the table has, and what the event is called, as far as it is known. Not told to those who watch. */
  readonly sender?: string;
  readonly event?: string;
}

/** What may be shown of a request beside its body. */
export interface ShownRequest {
  readonly remoteAddress: string;
  readonly method: string;
  /** Path and query; the query's values are `***` where no column takes them. */
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Names of headers that may hold credentials. */
  readonly leftOut: readonly string[];
  /** By name, of those: how they looked. */
  readonly masked: Readonly<Record<string, string>>;
}

/** What an accepted request held, of a table whose owner may look: from memory, for as long as its outcome is remembered. */
export interface HeldRequest extends ShownRequest {
  /** Of its arrival. */
  readonly atMs: number;
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  /** Its first bytes, in base64, and of how many. */
  readonly body: string;
  readonly bodyBytes: number;
}

/** Which one. */
export interface HeldQuestion {
  readonly held: string;
  readonly database: string;
  readonly schema: string;
  readonly table: string;
  /** pg_class.oid of the table that who asks may read; null: he may read all of them. */
  readonly oid: number | null;
}

/** Which of the lines that are remembered. */
export interface Recall {
  readonly filter: LineFilter;
  /** Those that come after this one in the list (arrival in ms, id); null: from the newest. */
  readonly from: readonly [number, string] | null;
  readonly max: number;
}

/** '' is no filter. */
export interface LineFilter {
  readonly result: string;
  readonly schema: string;
  readonly table: string;
  readonly code: string;
  readonly sender: string;
  readonly event: string;
  /** Part of its address, path, table or id. */
  readonly text: string;
  /** ms since 1970; 0: no bound. */
  readonly fromMs: number;
  readonly untilMs: number;
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
  /** What is remembered and matches, the newest arrival first. Never rejects: a process that does not answer is left out. */
  recall(of: Recall): Promise<readonly TailLine[]>;
}

/** Where `headgate doctor` asks whether a door is Headgate's: no table is there, and the lists of requests leave it out. */
export const doctorPath = '/webhook/headgate/doctor/asks';
