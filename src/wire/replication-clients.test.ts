import assert from 'node:assert/strict';
import { test } from 'node:test';
import { followerRefused } from './replication-clients.ts';

const slot = 'CREATE_REPLICATION_SLOT';

test('a replication client of the SQL port may read publications, and may not copy the server', () => {
  for (const sql of [
    'IDENTIFY_SYSTEM',
    'SELECT 1',
    'SHOW wal_level',
    'READ_REPLICATION_SLOT s',
    'DROP_REPLICATION_SLOT s WAIT',
    'BASE_BACKUPS',
    '"BASE_BACKUP"',
    `START_REPLICATION SLOT "s" LOGICAL 0/0 (proto_version '1')`,
    'start_replication\n\tslot logical logical 0/0',
    `${slot} "s" LOGICAL pgoutput (SNAPSHOT 'nothing')`,
    `${slot} s TEMPORARY LOGICAL "pgoutput" USE_SNAPSHOT`,
    `${slot} s LOGICAL pgoutput;`,
  ])
    assert.equal(followerRefused(sql, true), null, sql);
  for (const sql of [
    'BASE_BACKUP',
    " \n\t\r\f\vBase_Backup(LABEL 'x')",
    'BASE_BACKUP;',
    'UPLOAD_MANIFEST',
    'START_REPLICATION 0/0',
    'START_REPLICATION PHYSICAL 0/0',
    'START_REPLICATION SLOT s 0/0',
    'START_REPLICATION SLOT s PHYSICAL 0/0',
    'START_REPLICATION SLOT logical PHYSICAL 0/0',
    'START_REPLICATION SLOT "s"" LOGICAL " PHYSICAL 0/0',
    'START_REPLICATION SLOT s LOGICAL\xa0 0/0',
  ])
    for (const publishedOnly of [true, false])
      assert.match(followerRefused(sql, publishedOnly)?.message ?? '', /copy the server/, sql);
  for (const sql of [
    `${slot} s PHYSICAL`,
    `${slot} s LOGICAL test_decoding`,
    `${slot} s LOGICAL pgoutput_x`,
    `${slot} s LOGICAL pgoutput\xff`,
    `${slot} "s"" LOGICAL pgoutput " LOGICAL test_decoding`,
  ]) {
    assert.match(followerRefused(sql, true)?.message ?? '', /slots of this kind/, sql);
    assert.equal(followerRefused(sql, false), null, sql);
  }
});
