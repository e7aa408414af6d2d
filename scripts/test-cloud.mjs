// Checks deploy/cloud/cloud-init.yaml with cloud-init itself, with sh, and its settings with Headgate: `npm run test:cloud`. cloud-init and
// the Python modules it needs come from Debian, unpacked into the user's cache folder; nothing is installed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { must, temporary, unpacked } from './commands.mjs';

const file = 'deploy/cloud/cloud-init.yaml';
const modules =
  'attr certifi chardet configobj idna jinja2 jsonpatch json-pointer jsonschema markupsafe netifaces';
const more = 'oauthlib pyrsistent requests serial six urllib3 yaml';
const python = `${modules} ${more}`.split(' ').map((name) => `python3-${name}`);
const debian = unpacked('cloud-init', ['cloud-init', ...python]);
const env = { ...process.env, PYTHONPATH: join(debian, 'usr/lib/python3/dist-packages') };
must('/usr/bin/python3', [join(debian, 'usr/bin/cloud-init'), 'schema', '-c', file], { env });

const folder = temporary('cloud');
const { bootcmd, runcmd, write_files: files } = parse(readFileSync(file, 'utf8'));
must('sh', ['-nc', runcmd.join('\n')]);
const units = runcmd.join(' ').match(/headgate[\w-]*\.(service|socket)/g);
for (const unit of units) assert(existsSync(join('deploy/systemd', unit)), unit);

// A volume without a file system gets one; a volume with a file system or a partition table stays as it is.
const [command, ...args] = bootcmd.at(-1);
const volume = join(folder, 'volume');
const prepared = () => {
  must(command, [...args.slice(0, -1), volume], { stdio: 'ignore' });
  return spawnSync('blkid', ['-p', volume], { encoding: 'utf8' }).stdout;
};
must('truncate', ['-s', '40M', volume]);
const first = prepared();
assert.match(first, / LABEL="headgate" .* TYPE="ext4"/);
assert.equal(prepared(), first);
must('mkfs.ext4', ['-q', '-F', '-L', 'other', volume]);
assert.match(prepared(), / LABEL="other"/);
rmSync(volume);
must('truncate', ['-s', '40M', volume]);
// One Linux partition, from sector 2048 on.
const table = Buffer.alloc(512);
table[0x1c2] = 0x83;
table.writeUInt32LE(2048, 0x1c6);
table.writeUInt32LE(40_960, 0x1ca);
table.writeUInt16BE(0x55aa, 510);
writeFileSync(volume, table, { flag: 'r+' });
assert.match(prepared(), / PTTYPE="dos"/);
rmSync(volume);
assert.notEqual(spawnSync(command, [...args.slice(0, -1), volume]).status, 0);

const settings = files.find(({ path }) => basename(path) === 'headgate.env').content;
const given = settings
  .trim()
  .split('\n')
  .map((line) => line.split('='));
must(process.execPath, ['dist/src/app/cli.js', 'config'], {
  stdio: ['ignore', 'ignore', 'inherit'],
  env: { PATH: process.env.PATH, HEADGATE_DATA_DIR: resolve(folder), ...Object.fromEntries(given) },
});
console.log('An empty volume gets a file system, and any other stays as it is.');
console.log(
  `sh reads the script, its ${new Set(units).size} units are here, and Headgate takes the settings.`,
);
