import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { parseDsn, splitHosts } from './dsn.ts';
import { EngineError } from './engine.ts';

const names = (text: string) => parseDsn(text).servers.map((server) => server.name);

suite('connection strings of PostgreSQL are read as libpq reads them', () => {
  test('a DSN with several hosts is read as libpq reads it', () => {
    assert.deepEqual(names('postgresql://u@h1,h2:6000/d'), ['h1:5432', 'h2:6000']);
    assert.deepEqual(names('postgresql://u:p%2Cq@h1:1,[::1]:2,10.0.0.1/d?sslmode=require'), [
      'h1:1',
      '::1:2',
      '10.0.0.1:5432',
    ]);
    assert.deepEqual(names('postgresql://u@/d?host=/tmp/a,/tmp/b&port=1,2'), ['/tmp/a:1', '/tmp/b:2']);
    assert.deepEqual(names('postgresql://u@/d?port=7&host=%2Ftmp%2Fa%2Ch2'), ['/tmp/a:7', 'h2:7']);
    assert.deepEqual(names('postgresql://u@h1,h2/d?port=7'), ['h1:7', 'h2:7']);
    assert.deepEqual(names('postgresql://u@h/d'), ['h:5432']);
    for (const text of [
      'postgresql://u@h1,h2/d?port=1,2,3',
      'postgresql://u@h1,h2/d?host=a,b',
      'postgresql://u@h/d?port=1,2',
      `postgresql://u@${'h,'.repeat(16)}h/d`,
      'postgresql://u@h1:99999,h2/d',
    ])
      assert.throws(() => parseDsn(text), EngineError, text);
    assert.deepEqual(splitHosts('nonsense'), ['nonsense']);
  });

  test("a DSN's target_session_attrs selects the acceptable server", () => {
    assert.equal(parseDsn('postgresql://u@h/d').sessions, 'any');
    assert.equal(parseDsn('postgresql://u@h,i/d').sessions, 'read-write');
    assert.equal(parseDsn('postgresql://u@h,i/d?target_session_attrs=any').sessions, 'any');
    assert.equal(parseDsn('postgresql://u@h/d?target_session_attrs=primary').sessions, 'primary');
    assert.throws(
      () => parseDsn('postgresql://u@h/d?target_session_attrs=standby'),
      /target_session_attrs must be one of any, read-write, primary/,
    );
  });

  test('sslmode of a DSN means the same for node-postgres and the relay', () => {
    const server = (options: string) => {
      const [first] = parseDsn(`postgresql://u@db.example/d${options}`).servers;
      assert.ok(first?.endpoint.kind === 'tcp');
      assert.deepEqual(first.config.ssl, first.endpoint.tlsOptions ?? first.endpoint.tls);
      return first;
    };
    assert.equal(server('?ssl=0').plain, null);
    assert.equal(server('?sslmode=disable').config.ssl, false);
    assert.deepEqual({ ...(server('?sslmode=require').config.ssl as object) }, { rejectUnauthorized: false });
    assert.deepEqual({ ...(server('?sslmode=verify-full').config.ssl as object) }, {});
    for (const options of ['', '?application_name=x', '?sslmode=prefer']) {
      const prefer = server(options);
      assert.deepEqual({ ...(prefer.config.ssl as object) }, { rejectUnauthorized: false }, options);
      assert.equal(prefer.plain?.config.ssl, false);
      assert.deepEqual(prefer.plain?.endpoint, { kind: 'tcp', host: 'db.example', port: 5432, tls: false });
    }
    // A Unix socket has no TLS, whatever is asked for, as with libpq.
    for (const options of ['&sslmode=prefer', '']) {
      const [first] = parseDsn(`postgresql:///d?host=/tmp${options}`).servers;
      assert.deepEqual([first?.config.ssl, first?.plain], [false, null]);
    }
  });

  test('sslrootcert=system means verify-full by the certificate authorities of the system or of Node', () => {
    const url = 'postgresql://u@db.example/d?sslrootcert=system';
    for (const text of [url, `${url}&sslmode=verify-full`, `${url}&application_name=x`]) {
      const [first] = parseDsn(text, ['/nowhere']).servers;
      assert.deepEqual([{ ...(first?.config.ssl as object) }, first?.plain], [{}, null], text);
    }
    for (const mode of ['disable', 'prefer', 'require', 'verify-ca', 'no-verify'])
      assert.throws(
        () => parseDsn(`${url}&sslmode=${mode}`),
        /sslrootcert=system is for sslmode=verify-full/,
      );
    assert.throws(
      () => parseDsn('postgresql://u@h/d?sslrootcert=systemd'),
      /systemd cannot be read \(ENOENT\)/,
    );
  });
});
