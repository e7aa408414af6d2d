/**
 * The state of Headgate: ready or why not, the engine, the answers since the start, and its processes (`/metrics`); the growth of
 * the tables; and, for roles that PostgreSQL lets monitor it, the disk, the spool and the certificates.
 */
import type { JSX } from 'preact';
import type { CertificateInfo, Health, Machine } from '../api.ts';
import { counted, digitsText, sizeText } from '../visible-text.ts';
import { listGrowth } from '../relation-statements.ts';
import { readEngine, readWal, listMax } from '../statements.ts';
import { useLoaded, useRows, useRowsIf } from './load.ts';
import { Badge, Copy, Shown, Sql, Status, Wrong, Listing } from './components.tsx';
import { Text } from './text.tsx';
import { Figure } from './overview.tsx';
import { call } from './server.ts';
import { to } from './route.ts';

const dayMs = 86_400_000;

export function HealthScreen(): JSX.Element {
  const loaded = useLoaded('health', (options) => call<Health>('health', options), 2_000);
  const machine = useLoaded('machine', (options) => call<Machine | null>('machine', options), 15_000);
  const curl = `curl ${location.origin}/metrics`;
  return (
    <>
      <header class="head">
        <h1>Health</h1>
        <Copy text={curl} label="Copy curl of /metrics" />
      </header>
      <Shown loaded={loaded}>{(value) => <Known health={value} />}</Shown>
      <Disk machine={machine.value} />
      {machine.failure === null ? null : <Wrong failure={machine.failure} />}
      <Growth freeBytes={machine.value?.disk?.embedded === true ? machine.value.disk.freeBytes : null} />
      {(machine.value?.certificates.length ?? 0) === 0 ? null : (
        <>
          <h2>Certificates</h2>
          <ul class="list">
            {machine.value?.certificates.map((it) => (
              <Certificate key={it.door} of={it} />
            ))}
          </ul>
        </>
      )}
    </>
  );
}

/** Leaves out what the role may not see. */
function Disk({ machine }: { readonly machine: Machine | null }): JSX.Element {
  const engine = useRows(readEngine, 15_000).value?.[0];
  const wal = useRowsIf(machine === null ? null : readWal, 15_000).value?.[0];
  const { disk = null, spool = null, node = '' } = machine ?? {};
  return (
    <>
      <h2>Disk</h2>
      <dl class="figures">
        {disk === null ? null : (
          <Figure
            name={`free in ${disk.folder}`}
            value={`${sizeText(disk.freeBytes)} of ${sizeText(disk.totalBytes)}`}
            wrong={disk.low}
          />
        )}
        <Figure
          name="this database"
          value={engine === undefined ? '…' : sizeText(Number(engine['database_bytes']))}
        />
        {wal === undefined ? null : (
          <Figure name="write-ahead log" value={sizeText(Number(wal['wal_bytes']))} />
        )}
        {spool === null ? null : (
          <Figure
            name="spool"
            value={`${sizeText(spool.bytes)}, ${spool.tables} ${spool.tables === 1 ? 'table' : 'tables'}`}
            wrong={spool.held + spool.damaged > 0 || !spool.takes}
          />
        )}
        {disk === null || disk.flushMs === null ? null : (
          <Figure name="flush time" value={`${disk.flushMs.toFixed(2)} ms`} wrong={disk.slow} />
        )}
        <Figure name="PostgreSQL" value={engine?.['server_version'] ?? '…'} />
        {node === '' ? null : <Figure name="Node" value={node} />}
      </dl>
      {disk?.embedded === false ? (
        <p class="faint">
          This is Headgate's own disk. The database is on another one, which Headgate cannot see.
        </p>
      ) : null}
      {machine === null ? (
        <p class="faint">
          The machine is shown only to superusers and members of <code>pg_monitor</code>.
        </p>
      ) : null}
      <Sql text={[readEngine, ...(machine === null ? [] : [readWal])].join(';\n')} />
    </>
  );
}

function Certificate({ of: { door, names, untilMs, state } }: { readonly of: CertificateInfo }): JSX.Element {
  const days = Math.floor((untilMs - Date.now()) / dayMs);
  return (
    <li>
      <Badge kind={state === 'valid' ? 'good' : state === 'expires soon' ? 'warn' : 'bad'}>{state}</Badge>{' '}
      {door}: <Text of={names} max={400} />
      {state === 'unreadable' ? '' : `, ${counted(days, 'day')} left`}
    </li>
  );
}

function uptimeText(s: number): string {
  if (s < 120) return `${s} s`;
  if (s < 7_200) return `${Math.floor(s / 60)} min`;
  return s < 172_800 ? `${Math.floor(s / 3_600)} h` : `${Math.floor(s / 86_400)} days`;
}

function Known({ health }: { readonly health: Health }): JSX.Element {
  const { notReady, engine, version, uptimeS, memoryBytes, requests, rows, waitingRows, listeners } = health;
  return (
    <>
      <p class={notReady === null ? 'verdict good' : 'verdict bad'}>
        {notReady === null ? <Badge kind="good">ready</Badge> : <Badge kind="bad">not ready</Badge>}{' '}
        {notReady ?? 'Requests can be accepted and committed.'}
      </p>
      <dl class="figures">
        <Figure name="engine" value={engine} />
        <Figure name="Headgate" value={version} />
        <Figure name="running for" value={uptimeText(uptimeS)} />
        <Figure name="memory" value={sizeText(memoryBytes)} />
        <Figure name="rows committed" value={digitsText(String(rows))} />
        <Figure name="rows waiting" value={digitsText(String(waitingRows))} />
      </dl>
      <h2>Answers since the start</h2>
      <p class="faint">
        Of all databases and roles together: /metrics says the same to anybody who can reach it.
      </p>
      {requests.length === 0 ? (
        <div class="empty">No requests yet.</div>
      ) : (
        <table class="rows short">
          <thead>
            <tr>
              <th>Answer</th>
              <th>Code</th>
              <th class="right">Requests</th>
            </tr>
          </thead>
          <tbody>
            {requests.map((it) => (
              <tr key={`${it.status} ${it.code}`}>
                <td>
                  <Status status={Number(it.status)} code={it.code} />
                </td>
                <td>{it.code}</td>
                <td class="right mono">{digitsText(String(it.count))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {listeners.length === 0 ? null : (
        <>
          <h2>Listener processes</h2>
          <ul class="list">
            {listeners.map((it) => (
              <li key={it.listener}>
                {it.listener}:{' '}
                {it.serving ? <Badge kind="good">serving</Badge> : <Badge kind="bad">down</Badge>}{' '}
                {it.connections} connections
              </li>
            ))}
          </ul>
        </>
      )}
      <p class="faint">For graphs and alerts, Prometheus and Grafana can read /metrics.</p>
    </>
  );
}

/** The sizes of the role's tables, their growth in the last 24 hours (`headgate.traffic`), and when that fills the disk. `freeBytes`: on the disk that holds the tables; null: unknown. */
function Growth({ freeBytes }: { readonly freeBytes: number | null }): JSX.Element {
  const loaded = useRows(listGrowth, 60_000);
  const grew = (loaded.value ?? []).reduce(
    // A table that keeps rows only for a time, or up to a number, does not grow without limit.
    (sum, row) => sum + (row['keep'] === null ? Number(row['bytes_a_day'] ?? 0) : 0),
    0,
  );
  return (
    <>
      <h2>Growth of tables</h2>
      {freeBytes === null || grew === 0 ? null : (
        <p role="status">
          At the growth of the last 24 hours, the disk is full in <b>{daysText(freeBytes / grew)}</b>.
        </p>
      )}
      <Listing loaded={loaded} max={listMax.growth} empty={<>You own no webhook tables.</>}>
        {(rows) => (
          <div class="scroll" tabIndex={0} role="region" aria-label="Growth of tables">
            <table class="rows">
              <thead>
                <tr>
                  <th>Table</th>
                  <th class="right">Size</th>
                  <th class="right">Rows in 24 h</th>
                  <th class="right">Grew in 24 h</th>
                  <th>Kept</th>
                </tr>
              </thead>
              <tbody>
                {rows.map((row) => (
                  <tr key={`${row['nspname']}.${row['relname']}`}>
                    <td>
                      <a data-row href={to(['endpoint', row['nspname'] ?? '', row['relname'] ?? ''])}>
                        <Text of={row['relname'] ?? ''} max={80} />
                      </a>
                    </td>
                    <td class="right mono">
                      {row['bytes'] === null ? 'locked' : sizeText(Number(row['bytes']))}
                    </td>
                    <td class="right mono">{digitsText(row['rows_of_day'] ?? '0')}</td>
                    <td class="right mono">
                      {row['bytes_a_day'] === null ? '–' : `≈ ${sizeText(Number(row['bytes_a_day']))}`}
                    </td>
                    <td>{row['keep'] ?? 'all'}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Listing>
      <Sql text={listGrowth} />
    </>
  );
}

function daysText(days: number): string {
  if (days < 2) return counted(Math.max(0, Math.floor(days * 24)), 'hour');
  return days > 3_650 ? 'more than ten years' : `${Math.floor(days)} days`;
}
