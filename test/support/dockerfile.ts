/** Parses a Dockerfile as Docker does, as far as ours needs: stages, instructions, continued lines, JSON forms. */
import assert from 'node:assert/strict';

export interface Instruction {
  readonly name: string;
  /** Flags such as `--from=build`, by name. */
  readonly flags: Readonly<Record<string, string>>;
  /** What follows the flags, with continued lines joined by spaces. */
  readonly text: string;
  /** The words of the JSON form; null in the shell form. */
  readonly words: readonly string[] | null;
}

export interface Stage {
  readonly name: string;
  readonly image: string;
  readonly instructions: readonly Instruction[];
}

export interface Dockerfile {
  readonly args: ReadonlyMap<string, string>;
  readonly stages: readonly Stage[];
}

export function parseDockerfile(source: string): Dockerfile {
  const args = new Map<string, string>();
  const stages: { name: string; image: string; instructions: Instruction[] }[] = [];
  for (const instruction of instructionsOf(source)) {
    const { name, text } = instruction;
    const stage = stages.at(-1);
    if (name === 'FROM') {
      const [, image = '', as = ''] = /^(\S+)(?:\s+AS\s+(\S+))?$/.exec(text) ?? [];
      assert(image !== '', text);
      stages.push({ image: expanded(image, args), name: as, instructions: [] });
    } else if (stage === undefined) {
      assert.equal(name, 'ARG', 'only ARG stands before the first FROM');
      const [key = '', value = ''] = text.split('=');
      args.set(key, value);
    } else {
      stage.instructions.push(instruction);
    }
  }
  return { args, stages };
}

function instructionsOf(source: string): Instruction[] {
  const lines = source.split('\n').filter((line) => !line.trimStart().startsWith('#'));
  const whole = lines.join('\n').replaceAll(/\\\n\s*/g, ' ');
  return whole
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map(parseInstruction);
}

function parseInstruction(line: string): Instruction {
  const [, name = '', rest = ''] = /^([A-Z]+)\s+(.*)$/.exec(line) ?? [];
  assert(name !== '', `an instruction: ${line}`);
  const flags: Record<string, string> = {};
  let text = rest.trim();
  for (let flag; (flag = /^--([a-z-]+)=(\S+)\s+/.exec(text)) !== null; text = text.slice(flag[0].length)) {
    flags[flag[1] ?? ''] = flag[2] ?? '';
  }
  const json = name === 'HEALTHCHECK' ? text.replace(/^CMD\s+/, '') : text;
  return { name, flags, text, words: json.startsWith('[') ? (JSON.parse(json) as string[]) : null };
}

function expanded(text: string, args: ReadonlyMap<string, string>): string {
  return text.replaceAll(/\$\{(\w+)\}/g, (_, key: string) => args.get(key) ?? assert.fail(`ARG ${key}`));
}
