import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { createHmac, randomBytes } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { accepted, onSomeEngine } from '../support/doors.ts';
import { temporaryFolder } from '../support/headgate.ts';
import { requireTool } from '../support/tools.ts';
import { within } from '../support/within.ts';

const run = promisify(execFile);
const urlencoded = { 'content-type': 'application/x-www-form-urlencoded' };
/** PayPal's IPN in the charset that it names, by Python's codecs; and a form in multipart, by its email package. */
const python = `
import sys
from urllib.parse import urlencode
from email.mime.multipart import MIMEMultipart
from email.mime.application import MIMEApplication
from email.mime.text import MIMEText
from email.policy import compat32
if sys.argv[1] == 'ipn':
  sys.stdout.write(urlencode({'first_name': 'Zoë €', 'charset': 'windows-1252'}, encoding='cp1252'))
else:
  form = MIMEMultipart('form-data', boundary='python-made-this')
  for part, name in (MIMEText('grün', 'plain', 'utf-8'), 'text'), (MIMEText('caf\xe9', 'plain', 'iso-8859-1'), 'latin'):
    part.add_header('Content-Disposition', 'form-data', name=name); form.attach(part)
  file = MIMEApplication(bytes(range(256)), 'pdf')
  file.add_header('Content-Disposition', 'form-data', name='file', filename=('utf-8', '', 'ünï.pdf')); form.attach(file)
  out = form.as_bytes(policy=compat32.clone(linesep='\\r\\n'))
  sys.stdout.buffer.write(out[out.index(b'--python-made-this'):])
`;

onSomeEngine(
  'request bodies in format form are stored',
  async (t, { client, post, rows, headgate, database }) => {
    const columns = `(data JSONB) WITH (connector = 'webhook', format = 'form'`;
    await client.query(`
    CREATE TABLE forms ${columns});
    CREATE TABLE whole ${columns}, form_files = 'content');
    CREATE TABLE described ${columns});
    CREATE TABLE sms ("From" TEXT, n INT, at TIMESTAMPTZ, ok BOOL, amount NUMERIC, day DATE DEFAULT now())
      WITH (connector = 'webhook', format = 'form')`);
    const stored = async (table: string) =>
      (await rows(`DELETE FROM ${table} RETURNING data`)).map(([data]) => data);

    await t.test(
      'a table of format form answers 415 to other bodies and stores nothing of them',
      async () => {
        const multipart = '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--b--\r\n';
        for (const [body, type] of [
          ['{"a":"b=c"}', 'application/json'],
          ['{"a":"b=c"}', 'application/x-www-form-urlencoded'],
          ['[1]', 'text/plain;charset=UTF-8'],
          ['<a b="c"/>', 'application/xml'],
          ['hello', 'text/plain'],
          [multipart, 'application/x-www-form-urlencoded'],
          [multipart, 'multipart/form-data; boundary=c'],
          [`preamble\r\n${multipart}`, 'multipart/form-data; boundary=b'],
          ['--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n1', 'multipart/form-data; boundary=b'],
        ] as const) {
          const { status, code, text } = await post('forms', body, { 'content-type': type });
          assert.deepEqual([status, code], [415, 'body_not_form'], `${type} ${body}`);
          assert.match(text, /^\{"error":"[^"]*: [^"]+","code"/);
        }
        assert.deepEqual(await stored('forms'), []);
        const kept = `SELECT count(*)::int FROM headgate.rejected_requests WHERE code = 'body_not_form'`;
        await within(10_000, async () => assert.deepEqual(await rows(kept), [['9']]));
      },
    );

    await t.test('a form body is stored whatever its Content-Type says', async () => {
      await accepted(post('forms', 'a=1&b=%2F', { 'content-type': 'text/plain;charset=UTF-8' }));
      await accepted(
        post('forms', new URLSearchParams({ a: 'ü "{}"', b: '' }).toString(), { 'content-type': '' }),
      );
      await accepted(post('forms', '{a}=free text', urlencoded));
      await accepted(post('forms', '\ufeffa=1', urlencoded));
      await accepted(post('forms', '', urlencoded));
      assert.deepEqual(await stored('forms'), [
      '{"a": "1", "b": "/"}', '{"a": "ü \\"{}\\"", "b": ""}', '{"{a}": "free text"}', '{"a": "1"}', '{}',
    ]); // prettier-ignore
    });

    await t.test('the charset of a form is that of its Content-Type or of its own field', async () => {
      const { stdout: ipn } = await run('python3', ['-c', python, 'ipn']);
      await accepted(post('forms', ipn, urlencoded));
      await accepted(
        post('forms', ipn.replace('windows-1252', 'x'), {
          'content-type': `${urlencoded['content-type']}; charset=windows-1252`,
        }),
      );
      const [first, second] = await stored('forms');
      assert.equal(first, '{"charset": "windows-1252", "first_name": "Zoë €"}');
      assert.equal(second, '{"charset": "x", "first_name": "Zoë €"}');
      const none = await post('forms', 'a=%ff', urlencoded);
      assert.deepEqual([none.status, none.code], [422, 'body_not_json']);
    });

    await t.test('curl -F stores fields as text and files as descriptions or byte for byte', async () => {
      const curl = requireTool(t, 'curl');
      if (curl === null) return;
      const folder = await temporaryFolder(t);
      const bytes = randomBytes(3 * 2 ** 20);
      await writeFile(join(folder, 'photo "1".png'), bytes);
      await writeFile(join(folder, 'empty.txt'), '');
      const send = async (table: string, ...args: readonly string[]) => {
        const url = `${headgate.webhookUrl}/${database}/public/${table}`;
        const { stdout } = await run(curl, ['-sS', url, ...args], { cwd: folder });
        assert.equal(stdout, '{"rows":1}');
        const [data = ''] = await stored(table);
        return JSON.parse(data ?? '') as Record<string, unknown>;
      };
      const fields = [
        '-F',
        'text=a&b=ü\r\n--',
        '-F',
        'p=@"photo \\"1\\".png";type=image/png',
        '-F',
        'all=@empty.txt',
        '-F',
        'all=@empty.txt',
      ];
      const empty = { name: 'empty.txt', type: 'text/plain', size: 0 };
      assert.deepEqual(await send('described', ...fields), {
        text: 'a&b=ü\r\n--',
        p: { name: 'photo "1".png', type: 'image/png', size: bytes.length },
        all: [empty, empty],
      });
      const { p } = (await send('whole', ...fields)) as { p: { content: string } };
      assert.ok(Buffer.from(p.content, 'base64').equals(bytes));
      assert.deepEqual(await send('described', '-H', 'Expect:', '-d', 'a=1', '-d', 'b=2'), {
        a: '1',
        b: '2',
      });
    });

    await t.test('forms that Python writes are read correctly', async () => {
      if (requireTool(t, 'python3') === null) return;
      const { stdout } = await run('python3', ['-c', python, 'multipart'], { encoding: 'buffer' });
      await accepted(
        post('whole', stdout, { 'content-type': 'multipart/form-data; boundary="python-made-this"' }),
      );
      const [data] = await stored('whole');
      const read = JSON.parse(data ?? '') as Record<string, unknown>;
      assert.deepEqual([read['text'], read['latin']], ['grün', 'café']);
      assert.deepEqual(read['file'], {
        name: 'ünï.pdf',
        type: 'application/pdf',
        size: 256,
        content: Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString('base64'),
      });
    });

    await t.test('form() reads the fields of multipart, as Mailgun signs them', async () => {
      await client.query(`
      CREATE SECRET mailgun_key WITH (backend = 'meta') AS 'key';
      CREATE TABLE signed ${columns}) VALIDATE SECRET mailgun_key AS secure_compare(form(payload)->>'signature',
        encode(hmac(mailgun_key, convert_to((form(payload)->>'timestamp') || (form(payload)->>'token'), 'UTF8'), 'sha256'), 'hex'))`);
      const form = new FormData();
      const signature = createHmac('sha256', 'key').update('1700000000token').digest('hex');
      for (const [name, value] of Object.entries({ timestamp: '1700000000', token: 'token', signature }))
        form.append(name, value);
      form.append('attachment-1', new Blob(['\0\xff'], { type: 'x/y' }), 'a.bin');
      const sent = new Response(form);
      const body = Buffer.from(await sent.arrayBuffer());
      const headers = { 'content-type': sent.headers.get('content-type') ?? '' };
      await accepted(post('signed', body, headers));
      const forged = await post(
        'signed',
        Buffer.from(body.toString('latin1').replace('1700000000', '1700000001'), 'latin1'),
        headers,
      );
      assert.equal(forged.status, 401);
      // What the check reads is what is stored: another boundary, or none, cannot make it something else.
      for (const type of ['multipart/form-data; boundary=x', 'application/x-www-form-urlencoded']) {
        const other = await post('signed', body, { 'content-type': type });
        assert.deepEqual([other.status, other.code], [415, 'body_not_form']);
      }
    });

    await t.test(
      'an empty form field is NULL where PostgreSQL reads no value from an empty text',
      async () => {
        await accepted(post('sms', 'From=&n=&at=&ok=&amount=&day=', urlencoded));
        assert.deepEqual(await rows('SELECT * FROM sms'), [['', null, null, null, null, null]]);
      },
    );

    await t.test(
      'form_files and on_unstorable are changed by ALTER TABLE and printed by SHOW CREATE TABLE',
      async () => {
        await client.query(`ALTER TABLE forms SET (form_files = 'content', on_unstorable = 'replace')`);
        const [[, shown = ''] = []] = await rows('SHOW CREATE TABLE forms');
        assert.match(shown ?? '', /form_files = 'content'/);
        assert.match(shown ?? '', /on_unstorable = 'replace'/);
        await within(5_000, () => accepted(post('forms', 'a=x%00y', urlencoded)));
        assert.deepEqual(await stored('forms'), ['{"a": "x\ufffdy"}']);
        await assert.rejects(
          client.query(`CREATE TABLE no (data JSONB) WITH (connector = 'webhook', form_files = 'content')`),
          /form_files needs format = 'form'/,
        );
      },
    );
  },
);
