/** The README's and the tour's blocks, pasted one after the other as their reader would, with psql and without it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { suite, test } from 'node:test';
import type { TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { onEnd } from '../support/cleanup.ts';
import { startHeadgate } from '../support/headgate.ts';
import type { Headgate } from '../support/headgate.ts';
import { root } from '../support/package.ts';
import { run } from '../support/run.ts';
import { sampleOf } from '../support/sample.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const cli = fileURLToPath(new URL('../../src/app/cli.js', import.meta.url));

interface Block {
  readonly language: string;
  readonly text: string;
  /** What the page shows as its answer; null: nothing. */
  readonly answer: string | null;
}

/** The blocks that a reader runs, each with the block without a language that follows it. */
async function blocksOf(page: string): Promise<Block[]> {
  const text = await readFile(join(root, page), 'utf8');
  const blocks: { language: string; text: string; answer: string | null }[] = [];
  for (const [, language = '', body = ''] of text.matchAll(/^```(\w*)[^\n]*\n([^]*?)^```$/gm)) {
    if (language !== '') blocks.push({ language, text: body, answer: null });
    else if (blocks.length > 0) Object.assign(blocks.at(-1) ?? {}, { answer: body });
  }
  return blocks;
}

/** The pages name Headgate's usual ports; here they are others. */
function here(text: string, { ports }: Headgate): string {
  return text
    .replaceAll('localhost:4560', `127.0.0.1:${ports.listen.port}`)
    .replaceAll('127.0.0.1:8000', `127.0.0.1:${ports.gateway.port}`)
    .replaceAll('-p 4567', `-p ${ports.sql.port}`);
}

const trimmed = (text: string) => text.replaceAll(/[ \t]+$/gm, '').trim();

/** One terminal: what a block defines is there for the next one. `npx headgate` is the program under test. */
function terminal(t: TestContext) {
  const shell = spawn('sh', [], { stdio: ['pipe', 'pipe', 'inherit'] });
  let out = '';
  let said = () => {};
  shell.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text;
    said();
  });
  onEnd(t, 'shell', async () => {
    const closed = new Promise((resolve) => shell.once('close', resolve));
    shell.stdin.end();
    await closed;
  });
  shell.stdin.write(`npx() { shift; '${process.execPath}' '${cli}' "$@"; }\n`);
  return (text: string) =>
    new Promise<string>((resolve, reject) => {
      said = () => {
        const ended = /\n@(\d+)@\n$/.exec(out);
        if (ended === null) return;
        const printed = out.slice(0, ended.index);
        out = '';
        if (ended[1] === '0') resolve(printed);
        else reject(new Error(`${text}\nended with ${ended[1]}: ${printed}`));
      };
      shell.stdin.write(`${text}\nprintf '\\n@%s@\\n' $?\n`);
    });
}

const psql = async ({ ports: { sql } }: Headgate, text: string): Promise<string> => {
  const args = ['-X', '-q', '-h', sql.host, '-p', String(sql.port), '-d', 'dev', '-U', 'root'];
  const ran = await run('psql', [...args, '-v', 'ON_ERROR_STOP=1'], { input: text });
  assert.equal(ran.code, 0, `${text}: ${ran.stderr}`);
  return ran.stdout;
};

const withCurl = async ({ gatewayUrl }: Headgate, text: string): Promise<string> => {
  const ran = await run('curl', ['-sS', '--fail-with-body', `${gatewayUrl}/v1/sql`, '--data-binary', '@-'], {
    input: text,
  });
  assert.equal(ran.code, 0, `${text}: ${ran.stdout}${ran.stderr}`);
  return ran.stdout;
};

suite('the documented examples for the first hour work', () => {
  test("the README's example equals the one printed at the start, and works twice", async (t) => {
    if (['psql', 'curl', 'openssl'].some((tool) => requireTool(t, tool) === null)) return;
    const headgate = await startHeadgate(t);
    const blocks = (await blocksOf('README.md')).filter(({ language }) => language === 'sh');
    const steps = headgate.stdout
      .split(/^Try it: .*$|^a request .*$|^and its row\.$|^Without psql/m)
      .slice(1, 4);
    assert.deepEqual(
      blocks.slice(0, 3).map(({ text }) => here(text, headgate)),
      steps.map((step) => `${step.replaceAll(/^ {2}/gm, '').trim()}\n`),
    );
    const paste = terminal(t);
    for (const { text } of [...blocks, ...blocks]) await paste(here(text, headgate));
    const rows = await paste(here(blocks.at(-1)?.text ?? '', headgate));
    assert.deepEqual((JSON.parse(rows) as { rows: unknown }).rows, [{ event: 'issues', count: 2 }]);
  });

  const ways = [
    { name: 'with psql', sql: psql, tools: ['psql', 'curl', 'openssl'] },
    { name: 'with curl alone', sql: withCurl, tools: ['curl', 'openssl'] },
  ];
  for (const { name, sql, tools } of sampleOf(ways, 1)) {
    test(`docs/tour.md works as printed, ${name}`, async (t) => {
      if (tools.some((tool) => requireTool(t, tool) === null)) return;
      const headgate = await startHeadgate(t);
      const paste = terminal(t);
      const blocks = await blocksOf('docs/tour.md');
      assert.ok(blocks.length > 15);
      for (const { language, text, answer } of blocks) {
        if (language === 'sh') {
          const printed = await paste(here(text, headgate));
          if (answer !== null) assert.equal(trimmed(printed), trimmed(answer), text);
          else assert.doesNotMatch(printed, /"error"/);
        } else if (answer === null) await sql(headgate, text);
        else {
          // What is written behind an answer is there a moment later.
          await within(5_000, async () => {
            const printed = await sql(headgate, text);
            if (sql === psql) assert.equal(trimmed(printed), trimmed(answer), text);
            else assert.equal((JSON.parse(printed) as { rows: unknown[] }).rows.length, 1, text);
          });
        }
      }
    });
  }
});
