// What tests fetch and keep, out of the checkout: in the user's cache folder.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

export const cache = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'headgate');

/** Ends the program when the command fails. */
export function must(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', ...options });
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(1);
}

/** Debian's packages, unpacked into a folder of that name; nothing is installed. */
export function unpacked(name, packages) {
  const folder = join(cache, `debian-${name}`);
  if (existsSync(folder)) return folder;
  const making = `${folder}.${process.pid}`;
  process.on('exit', () => rmSync(making, { recursive: true, force: true }));
  mkdirSync(making, { recursive: true });
  must('apt-get', ['download', '-qq', '-o', 'APT::Sandbox::User=root', ...packages], { cwd: making });
  for (const file of readdirSync(making).filter((it) => it.endsWith('.deb'))) {
    must('dpkg-deb', ['--extract', join(making, file), making]);
    rmSync(join(making, file));
  }
  renameSync(making, folder);
  return folder;
}
