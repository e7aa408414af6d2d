/** A table that can never accept a request is warned of when it is made: its secret has another form than its sender's. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { suite, test } from 'node:test';
import { startHeadgate } from '../support/headgate.ts';
import { sampleOf, sampleSeed } from '../support/sample.ts';
import { senders } from '../../src/senders/senders.ts';
import { SendError } from '../../src/senders/send-options.ts';
import { sendCommand } from '../../src/senders/send.ts';

suite('CREATE TABLE warns of mistakes', () => {
  test('CREATE TABLE warns of a secret in the wrong form and of an unknown public URL', async (t) => {
    const headgate = await startHeadgate(t);
    const client = await headgate.client(t);
    let warnings: { message: string | undefined; hint: string | undefined }[] = [];
    client.on('notice', ({ severity, message, hint }) => {
      if (severity === 'WARNING') warnings.push({ message, hint });
    });
    const warned = async (sql: string) => {
      warnings = [];
      await client.query(sql);
      return warnings;
    };
    const table = (name: string, sender: string, secret: string) =>
      `CREATE TABLE ${name} (data JSONB) WITH (connector = 'webhook') VALIDATE SECRET ${secret} USING ${sender}`;
    await client.query(`CREATE SECRET wrong WITH (backend = 'meta') AS 'abc'`);

    for (const sender of ['svix', 'standard_webhooks', 'adyen', 'discord', 'aws_sns', 'basic_auth']) {
      const [only, ...others] = await warned(table(`w_${sender}`, sender, 'wrong'));
      const { name, secret, secretForm } = senders.get(sender)!;
      assert.deepEqual(others, []);
      assert.equal(
        only?.message,
        `no request of ${name} will be accepted: secret "wrong" is not ${secretForm?.sentence}`,
      );
      assert(only.hint?.includes(secret.what), only.hint);
    }
    const right = senders.get('svix')!.makeSecret(randomBytes).secret;
    // Of one transaction, and of several secrets each.
    await client.query('BEGIN');
    await client.query(`CREATE SECRET good WITH (backend = 'meta') AS '${right}'`);
    assert.deepEqual(await warned(table('rotating', 'svix', 'good')), []);
    const some = await warned('ALTER TABLE rotating VALIDATE SECRET good, wrong USING svix');
    assert.match(some.map(({ message }) => message).join('\n'), /^[^\n]*secret "wrong" is not [^\n]*$/);
    await client.query('COMMIT');
    await client.query(`ALTER SECRET wrong AS '${right}'`);
    assert.deepEqual(await warned(table('after', 'svix', 'wrong')), []);
    await client.query(`CREATE SECRET IF NOT EXISTS good WITH (backend = 'meta') AS 'abc'`);
    assert.deepEqual(await warned(table('still', 'svix', 'good')), []);

    const [url] = await warned(table('squared', 'square', 'good'));
    assert.match(url?.message ?? '', /it signs the URL that it calls, and HEADGATE_PUBLIC_URL is not set/);
    assert.match(url?.hint ?? '', /HEADGATE_PUBLIC_URL/);

    // What strangers are answered with is computed from it: a verify token is only compared.
    await client.query(`CREATE SECRET brief WITH (backend = 'meta') AS 'fifteen letters'`);
    const [guessed, ...nothing] = await warned(table('crc', 'x', 'brief'));
    assert.match(
      guessed?.message ?? '',
      /^secret "brief" is shorter than 16 bytes, and strangers are answered/,
    );
    assert.deepEqual(nothing, []);
    assert.deepEqual(await warned(`${table('hub', 'meta', 'good')} ANSWER SECRET brief`), []);
    await client.query(`ALTER SECRET brief AS 'sixteen letters!'`);
    assert.deepEqual(await warned('ALTER TABLE crc VALIDATE SECRET brief USING x'), []);
    await client.query('DROP TABLE crc, hub; DROP SECRET brief');

    // What a secret looks like is Headgate's alone to know.
    await client.query('CREATE ROLE stranger');
    assert.equal((await client.query('SELECT * FROM headgate.secret_form')).rows.length, 2);
    await client.query('SET ROLE stranger');
    await assert.rejects(client.query('SELECT * FROM headgate.secret_form'), { code: '42501' });
  });

  test('headgate send refuses a secret without the form of its sender, which generated ones have', async (t) => {
    t.diagnostic(sampleSeed);
    // Some of them make an RSA key.
    for (const sender of sampleOf([...senders.values()], 40)) {
      const { secretForm } = sender;
      if (secretForm === null) continue;
      assert(secretForm.test(sender.makeSecret(randomBytes).secret), sender.id);
      for (const text of ['', 'no way!', ' ']) assert(!secretForm.test(text), `${sender.id}: ${text}`);
    }
    const io = {
      print: () => assert.fail('nothing is sent'),
      note: () => {},
      terminal: false,
      read: () => Promise.reject(new Error('no file')),
      clock: Date.now,
      elapsed: () => performance.now(),
      random: randomBytes,
      signal: new AbortController().signal,
    };
    const send = (sender: string, secret: string) =>
      sendCommand({ sender, secret, url: 'http://127.0.0.1:1/webhook/dev/public/t' }, io);
    await assert.rejects(
      send('svix', 'abc'),
      (error) =>
        error instanceof SendError &&
        /cannot sign with this secret: it is not `whsec_` and base64; it must be the signing secret/.test(
          error.message,
        ),
    );
    await assert.rejects(send('adyen', 'xyz'), /is not an even number of hexadecimal digits/);
    await assert.rejects(send('basic_auth', 'abc'), /is not `user:password`/);
  });
});
