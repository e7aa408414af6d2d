/** Parts on their own, without network or database: the check, the JSON scanner, batches, the listener. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { script } from './processes.ts';
import { stamp } from './report.ts';
import type { Bench } from './report.ts';

const execute = promisify(execFile);

const alone: readonly { readonly title: string; readonly file: string; readonly args: readonly string[] }[] =
  [
    {
      title:
        'VALIDATE: GitHub’s expression, compiled, beside `createHmac` and `timingSafeEqual` written by hand.',
      file: './validate.js',
      args: [],
    },
    {
      title:
        'Is it JSON that jsonb can store? One pass over the bytes, beside `JSON.parse` of the text, which would not be enough (it accepts what jsonb refuses).',
      file: './json-scan.js',
      args: [],
    },
    {
      title:
        'A batch of 1,000,000 lines from bytes to rows, before the database. The body is read in its place.',
      file: './decode.js',
      args: [],
    },
  ];

export const parts: Bench = {
  name: 'parts',
  run: async ({ rounds, seconds }) => {
    const listener = {
      title: 'The listener with a stage that does nothing, beside bare `node:http`, 64 connections, medians.',
      file: './listen.js',
      args: [String(rounds), String(Math.min(seconds, 3)), '64'],
    };
    const sections: string[] = [`${stamp()}.`];
    for (const { title, file, args } of [...alone, listener]) {
      try {
        const { stdout } = await execute(process.execPath, [script(file), ...args]);
        sections.push(title, stdout.trim());
      } catch (error) {
        sections.push(title, `Failed in this run: ${String(error).split('\n')[0]}`);
      }
    }
    return sections.join('\n\n');
  },
};
