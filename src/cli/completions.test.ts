import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Command } from 'commander';
import { run } from '../../test/support/run.ts';
import { requireTool } from '../../test/support/tools.ts';
import { completionsOf } from './completions.ts';

const program = new Command('headgate');
program
  .command('secrets')
  .description('look')
  .command('rotate-key')
  .description("it's; done")
  .option('--to <dsn>', 'where');
program.command('sql').description('a $(prompt) `for` "SQL"').option('--json', 'rows');

test("the bash completion completes headgate's commands, subcommands and options", async (t) => {
  if (requireTool(t, 'bash') === null) return;
  const completed = async (...words: string[]) => {
    const ask = `COMP_WORDS=(headgate ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; _headgate; echo "\${COMPREPLY[*]}"`;
    const { stdout, stderr } = await run('bash', ['-c', `${completionsOf(program, 'bash')}\n${ask}`]);
    assert.equal(stderr, '');
    return stdout.trim();
  };
  assert.equal(await completed('s'), 'secrets sql');
  assert.equal(await completed('secrets', ''), 'rotate-key --help');
  assert.equal(await completed('secrets', 'rotate-key', '--t'), '--to');
  assert.equal(await completed('sql', '-c', 'x', '--j'), '--json');
});

test('the zsh and fish completions have every command and option of headgate and run nothing', () => {
  for (const shell of ['zsh', 'fish']) {
    const text = completionsOf(program, shell);
    for (const word of ['rotate-key', 'sql', 'json', 'to']) assert(text.includes(word), `${shell}: ${word}`);
    assert(!/prompt\)|`for`/.test(text), shell);
  }
  assert.throws(() => completionsOf(program, 'tcsh'), /bash, zsh, fish/);
});
