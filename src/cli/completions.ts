/** `headgate completions`: completion scripts for bash, zsh and fish, generated from the commands. Pure. */
import type { Command } from 'commander';
import { PlainError } from '../kit/plain-error.ts';

export const shells = ['bash', 'zsh', 'fish'] as const;

interface Words {
  /** `secrets rotate-key`; '': before any command. */
  readonly path: string;
  readonly commands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly {
    readonly flag: string;
    readonly description: string;
    readonly takes: boolean;
  }[];
}

function wordsOf(command: Command, path: string): Words[] {
  const here = command.commands.map((it) => ({ name: it.name(), description: oneLine(it.description()) }));
  const options = command.options.flatMap(({ long, description, required, optional }) =>
    long === undefined || long === null
      ? []
      : [{ flag: long, description: oneLine(description), takes: required || optional }],
  );
  const help = { flag: '--help', description: 'display help for command', takes: false };
  return [
    { path, commands: here, options: [...options, help] },
    ...command.commands.flatMap((it) => wordsOf(it, `${path} ${it.name()}`.trim())),
  ];
}

/** The first phrase, without characters that a shell would interpret. */
function oneLine(text: string): string {
  return (text.split(/[\n:;(]/, 1)[0] ?? '').replaceAll(/['"`$\\[\]]/g, '').trim();
}

export function completionsOf(program: Command, shell: string): string {
  const all = wordsOf(program, '');
  if (shell === 'bash') return bash(all);
  if (shell === 'zsh') return `#compdef headgate\n${zsh(all)}`;
  if (shell === 'fish') return fish(all);
  throw new PlainError(`there are completions for ${shells.join(', ')}, but not for "${shell}"`);
}

const listed = (words: readonly Words[]): string =>
  words
    .filter(({ path }) => path !== '')
    .map(({ path }) => `'${path}'`)
    .join('|');

/** Finds the command that precedes the word being completed. */
const findPath = (words: readonly Words[], word: string, list: string): string => `  local at='' next
  for ${word} in ${list}; do
    next="\${at:+$at }$${word}"
    case "$next" in ${listed(words)}) at=$next ;; esac
  done`;

function bash(words: readonly Words[]): string {
  const cases = words.map(
    ({ path, commands, options }) =>
      `    '${path}') words='${[...commands.map(({ name }) => name), ...options.map(({ flag }) => flag)].join(' ')}' ;;`,
  );
  return `# headgate completions bash > /etc/bash_completion.d/headgate
_headgate() {
  local word words=''
${findPath(words, 'word', '"${COMP_WORDS[@]:1:COMP_CWORD-1}"')}
  case "$at" in
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _headgate headgate
`;
}

function zsh(words: readonly Words[]): string {
  const cases = words.map(({ path, commands, options }) => {
    const all = [
      ...commands.map((it) => [it.name, it.description]),
      ...options.map((it) => [it.flag, it.description]),
    ];
    return `    '${path}') candidates=(${all.map(([word, what]) => `'${word ?? ''}:${what ?? ''}'`).join(' ')}) ;;`;
  });
  return `# headgate completions zsh > "\${fpath[1]}/_headgate"
_headgate() {
  local word
  local -a candidates
${findPath(words, 'word', '"${(@)words[2,CURRENT-1]}"')}
  case "$at" in
${cases.join('\n')}
  esac
  _describe headgate candidates || _files
}
compdef _headgate headgate
`;
}

function fish(words: readonly Words[]): string {
  const lines = words.flatMap(({ path, commands, options }) => {
    const when = `-n "__headgate_at '${path}'"`;
    return [
      ...commands.map(
        ({ name, description }) => `complete -c headgate -f ${when} -a ${name} -d '${description}'`,
      ),
      ...options.map(
        ({ flag, description, takes }) =>
          `complete -c headgate ${when} -l ${flag.slice(2)}${takes ? ' -r' : ''} -d '${description}'`,
      ),
    ];
  });
  return `# headgate completions fish > ~/.config/fish/completions/headgate.fish
function __headgate_at
  set -l at
  for word in (commandline -opc)[2..-1]
    switch (string join ' ' $at $word)
      case ${words
        .filter(({ path }) => path !== '')
        .map(({ path }) => `'${path}'`)
        .join(' ')}
        set at $at $word
    end
  end
  test "$at" = "$argv[1]"
end
${lines.join('\n')}
`;
}
