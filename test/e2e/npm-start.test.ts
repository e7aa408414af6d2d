/** `npm start` in a terminal, ended by Ctrl-C: the terminal sends SIGINT to npm and to Headgate, and npm passes its own on. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { test } from 'node:test';
import { freePorts, temporaryFolder } from '../support/headgate.ts';
import type { Ports } from '../support/headgate.ts';
import { root } from '../support/package.ts';
import { keys, openTerminal } from '../support/pty.ts';
import { run } from '../support/run.ts';
import { times } from '../support/sample.ts';
import { fromTemplate } from '../support/template.ts';
import { requireTool } from '../support/tools.ts';

for (let round = 1; round <= times(1, 6); round++)
  test(`Ctrl-C under npm start drains and stores the request in flight (round ${round})`, async (t) => {
    const psql = requireTool(t, 'psql');
    const dataDir = await temporaryFolder(t);
    const home = await temporaryFolder(t);
    await fromTemplate(dataDir);
    // Without what comes before it, which is the build.
    const command = `exec npm start --ignore-scripts -- --data-dir=${dataDir} ${freePorts.join(' ')}`;
    const terminal = openTerminal(t, command, {
      cwd: root,
      env: { HOME: home, NPM_CONFIG_UPDATE_NOTIFIER: 'false' },
    });
    if (terminal === null || psql === null) return;
    await terminal.shows(/SELECT event, count\(\*\) FROM github_events/);
    const ports = JSON.parse(await readFile(join(dataDir, 'ports.json'), 'utf8')) as Ports;
    const sql =
      "CREATE TABLE seen (data JSONB) WITH (connector = 'webhook') VALIDATE AS secure_compare(headers->>'key', 'k')";
    const created = await run(psql, [
      '-X',
      '-h',
      '127.0.0.1',
      '-p',
      `${ports.sql.port}`,
      '-U',
      'root',
      '-d',
      'dev',
      '-c',
      sql,
    ]);
    assert.equal(created.code, 0, created.stderr);
    const sent = request(`http://127.0.0.1:${ports.listen.port}/webhook/dev/public/seen`, {
      method: 'POST',
      headers: { 'content-length': '2', expect: '100-continue', key: 'k' },
    });
    sent.flushHeaders();
    await once(sent, 'continue');
    terminal.type(keys.interrupt);
    await terminal.shows(/service\.draining/);
    sent.end('{}');
    const [{ statusCode }] = (await once(sent, 'response')) as [{ statusCode: number }];
    assert.equal(statusCode, 200);
    await terminal.shows(/service\.stopped/);
    assert.equal(await terminal.ended, 0, terminal.screen);
  });
