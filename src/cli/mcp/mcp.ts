/**
 * `headgate mcp`: the tools of an agent, over standard input and output. Ends with its input, or when it is interrupted; a line that is too
 * long is skipped and answered with an error. A client that reads no answers is read no further. Calls that run when the client is gone have a few
 * seconds to end. Returns the exit status.
 */
import type { Readable, Writable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { limits } from '../../config/limits.ts';
import type { Settings } from '../../config/settings.ts';
import { plain } from '../../kit/terminal.ts';
import type { CommandIo } from '../../kit/terminal.ts';
import { senderPage } from '../../senders/sender-page.ts';
import { senders } from '../../senders/senders.ts';
import { PlainError } from '../../kit/plain-error.ts';
import type { Where } from '../find-headgate.ts';
import { interrupted } from '../print.ts';
import { within } from '../session.ts';
import { whyNoQuery } from './query.ts';
import { McpServer } from './server.ts';
import { toolsOf } from './tools.ts';

/** `writes`: tools that change something are offered, too. */
export async function mcpCommand(
  where: Where,
  writes: boolean,
  settings: Settings,
  version: string,
  input: Readable,
  output: Writable,
  io: CommandIo,
): Promise<number> {
  const why = await within(where.dsn, 'mcp', whyNoQuery);
  if (why !== null) io.note(`headgate mcp: no query: ${plain(why)} (docs/mcp.md says how to make a role)\n`);
  const setting = { where, settings, version, io, writes, queries: why === null };
  const resources = [...senders.keys()].map((id) => ({ uri: `headgate://senders/${id}`, name: id }));
  const server = new McpServer(version, toolsOf(setting), resources, pageAt, (text) =>
    io.note(`headgate mcp: ${plain(text.trimEnd())}\n`),
  );
  const stop = (): void => {
    server.close();
    input.destroy();
  };
  io.signal.addEventListener('abort', stop, { once: true });
  const running = new Set<Promise<void>>();
  try {
    for await (const line of linesOf(input)) {
      const answered = server.answer(line).then((answer) => written(output, answer));
      const settled = answered.finally(() => running.delete(settled));
      running.add(settled);
      if (running.size >= limits.mcpPendingMax) await Promise.race(running);
    }
  } catch (error) {
    if (!io.signal.aborted) throw error;
  } finally {
    const late = setTimeout(() => server.close(), limits.mcpEndMs);
    // Answers that nobody reads never end.
    await Promise.race([Promise.allSettled(running), pause(2 * limits.mcpEndMs, undefined, { ref: false })]);
    clearTimeout(late);
    io.signal.removeEventListener('abort', stop);
  }
  return io.signal.aborted ? interrupted : 0;
}

/** Resolves when the pipe has taken it, or is closed. */
async function written(output: Writable, answer: string | null): Promise<void> {
  if (answer !== null) await new Promise<void>((resolve) => output.write(answer, () => resolve()));
}

function pageAt(uri: string): string {
  const sender = senders.get(uri.slice(uri.lastIndexOf('/') + 1));
  if (sender === undefined) throw new PlainError('this sender is not known');
  return senderPage(sender);
}

/** One that is too long becomes an empty one, which is answered as no JSON. */
async function* linesOf(input: Readable): AsyncGenerator<string> {
  let [parts, bytes]: [Buffer[], number] = [[], 0];
  for await (const chunk of input) {
    let rest = chunk as Buffer;
    for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
      const isShort = bytes + end <= limits.mcpLineBytesMax;
      const line = isShort ? Buffer.concat([...parts, rest.subarray(0, end)]).toString('utf8') : '';
      if (!isShort || line.trim() !== '') yield line;
      [parts, bytes, rest] = [[], 0, rest.subarray(end + 1)];
    }
    bytes += rest.length;
    if (bytes <= limits.mcpLineBytesMax) parts.push(rest);
    else parts = [];
  }
}
