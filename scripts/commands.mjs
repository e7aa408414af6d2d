// Common parts of the scripts that try Headgate with other programs: commands, temporary folders, and what is fetched and kept outside the
// checkout, in the user's cache folder.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';

/** Ends the program if the command fails. */
export function must(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: 'inherit', ...options });
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(1);
}

/** The output of a command; ends the program if it fails. */
export function printed(command, args, options = {}) {
  const ran = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 2 ** 28, ...options });
  if (ran.status === 0) return (ran.stdout ?? '').trim();
  console.error(
    `${command} ${args.join(' ')}: ${ran.error?.message ?? ''}\n${ran.stdout ?? ''}${ran.stderr ?? ''}`.trim(),
  );
  return process.exit(1);
}

/** Runs a test file, with additional environment variables. */
export function tests(file, env = {}) {
  must(process.execPath, ['--test', file], { env: { ...process.env, ...env } });
}

/** A folder that is removed when the program ends; `before`: what has to be done first. */
export function temporary(name, before = () => {}) {
  const folder = mkdtempSync(join(tmpdir(), `headgate-${name}-`));
  process.on('exit', () => {
    before();
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}

/** Packages of PyPI, in a virtual environment at `folder`. */
export function pip(folder, ...packages) {
  must('python3', ['-m', 'venv', folder]);
  must(join(folder, 'bin/pip'), ['install', '--quiet', '--no-input', ...packages]);
}

/** A folder in the user's cache, for things that take minutes to make and outlive the run. */
export function cached(name) {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'headgate');
  mkdirSync(folder, { recursive: true });
  return join(folder, name);
}

/** The folder of that name, made once. Uses a rename, so that an interrupted run leaves nothing that looks complete. */
export function madeOnce(name, make) {
  const folder = cached(name);
  if (existsSync(folder)) return folder;
  const making = `${folder}.${process.pid}`;
  process.on('exit', () => rmSync(making, { recursive: true, force: true }));
  mkdirSync(making);
  make(making);
  renameSync(making, folder);
  return folder;
}

/** Debian's packages, unpacked into a folder of that name; nothing is installed. */
export function unpacked(name, packages) {
  return madeOnce(`debian-${name}`, (folder) => {
    must('apt-get', ['download', '-qq', '-o', 'APT::Sandbox::User=root', ...packages], { cwd: folder });
    for (const file of readdirSync(folder).filter((it) => it.endsWith('.deb'))) {
      must('dpkg-deb', ['--extract', join(folder, file), folder]);
      rmSync(join(folder, file));
    }
  });
}
