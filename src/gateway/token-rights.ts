/**
 * What the catalog says of tokens of CREATE TOKEN. Takes the hash of a token and the origin of a page; returns what the catalog has
 * at this moment, read after the call: nothing is cached. Calls that arrive while a query is running share the next one, so any
 * number of wrong tokens cost one query at a time. Refuses with what `Catalog.asked` refuses with.
 */
import { quoteLiteral } from '../kit/sql-text.ts';
import { limits } from '../config/limits.ts';
import type { Catalog } from '../catalog/catalog.ts';
import type { AskTokens, TokenAnswer, TokenQuestion } from './tokens.ts';

interface RightsRow {
  /** null: the token does not exist. */
  readonly id: string | null;
  readonly origins: readonly string[];
  readonly rate: string | null;
  readonly relations: readonly number[];
  readonly origin_known: boolean;
}

interface WaitingQuestion extends TokenQuestion {
  readonly resolve: (answer: TokenAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** The number of waiting calls is bounded by the number of accepted requests. */
export function askTokens(databases: Pick<Catalog, 'asked'>): AskTokens {
  /** By database and kind; what has an entry is being queried. */
  const waiting = new Map<string, WaitingQuestion[]>();
  const run = async (database: string, reads: boolean, queue: WaitingQuestion[]): Promise<void> => {
    while (queue.length > 0) {
      const batch = queue.splice(0, limits.tokensAskedMax);
      try {
        const rows = await databases.asked<RightsRow>(database, rightsSql(reads, batch));
        batch.forEach(({ resolve }, index) => resolve(answerOf(rows?.[index])));
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    waiting.delete(keyOf(database, reads));
  };
  return (database, question) =>
    new Promise((resolve, reject) => {
      const asking = { ...question, resolve, reject };
      const { reads } = question;
      const queue = waiting.get(keyOf(database, reads));
      if (queue !== undefined) return void queue.push(asking);
      const begun = [asking];
      waiting.set(keyOf(database, reads), begun);
      void run(database, reads, begun);
    });
}

const keyOf = (database: string, reads: boolean): string => `${reads} ${database}`;

function answerOf(row: RightsRow | undefined): TokenAnswer {
  if (row === undefined || row.id === null) return { grant: null, originKnown: row?.origin_known ?? false };
  const { id, origins, rate, relations, origin_known: originKnown } = row;
  return { grant: { id, origins, rate, relations: new Set(relations) }, originKnown };
}

function rightsSql(reads: boolean, batch: readonly TokenQuestion[]): string {
  const list = (texts: readonly (string | null)[]) =>
    `array[${texts.map((text) => (text === null ? 'null' : quoteLiteral(text))).join(', ')}]::pg_catalog.text[]`;
  const hashes = list(batch.map(({ hash }) => hash));
  const origins = list(batch.map(({ origin }) => origin));
  return `select id, origins, rate, relations, origin_known from headgate.token_rights(${hashes}, ${origins}, ${reads}) order by n`;
}
