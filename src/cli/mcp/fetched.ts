/**
 * The rows of a SELECT, one after the other, until there are enough: neither their number nor their size is known before. Takes a session in a
 * transaction; returns values as PostgreSQL writes them, those that are too long cut.
 */
import { limits } from '../../config/limits.ts';
import { databaseError } from '../session.ts';
import type { CommandSession, Texts } from '../session.ts';
import type { ToolResult } from './server.ts';

export async function fetched(session: CommandSession, select: string, rowsMax: number): Promise<ToolResult> {
  await one(session, `DECLARE found NO SCROLL CURSOR FOR ${select}`);
  const rows: Record<string, string | null>[] = [];
  let [chars, truncated] = [0, false];
  for (;;) {
    const [row] = await one(session, 'FETCH found');
    if (row === undefined) break;
    if (rows.length === rowsMax || chars > limits.mcpAnswerCharsMax) {
      truncated = true;
      break;
    }
    const shown: Record<string, string | null> = {};
    for (const [name, value] of Object.entries(row)) {
      const short = value?.slice(0, limits.mcpValueCharsMax) ?? null;
      if (short !== value) truncated = true;
      shown[name] = short;
      chars += name.length + (short?.length ?? 0);
    }
    rows.push(shown);
  }
  await one(session, 'CLOSE found');
  return { rows, truncated };
}

/** By the extended protocol, which takes one statement and no second one behind it. */
async function one(session: CommandSession, text: string): Promise<Texts[]> {
  const query = { text, queryMode: 'extended' };
  try {
    return (await session.client.query<Texts>(query)).rows;
  } catch (error) {
    throw databaseError(error);
  }
}
