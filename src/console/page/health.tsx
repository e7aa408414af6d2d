/** How Headgate is: ready or why not, the engine, what was answered since the start, and its processes (`/metrics`). */
import type { JSX } from 'preact';
import type { Health } from '../api.ts';
import { digitsText, sizeText } from '../shown.ts';
import { useLoaded } from './load.ts';
import { Badge, Copy, Skeleton, Status, Wrong } from './parts.tsx';
import { Figure } from './overview.tsx';
import { call } from './server.ts';

export function HealthScreen(): JSX.Element {
  const { value, failure } = useLoaded('health', (options) => call<Health>('health', options), 2_000);
  const curl = `curl ${location.origin}/metrics`;
  return (
    <>
      <header class="head">
        <h1>Health</h1>
        <Copy text={curl} label="Copy curl of /metrics" />
      </header>
      {failure === null ? null : <Wrong failure={failure} />}
      {value === null ? failure === null && <Skeleton /> : <Known health={value} />}
    </>
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
        {notReady ?? 'Requests can be taken and committed.'}
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
      {requests.length === 0 ? (
        <div class="empty">No request has come.</div>
      ) : (
        <table class="rows short">
          <thead>
            <tr>
              <th>answer</th>
              <th>code</th>
              <th class="right">requests</th>
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
                {it.serving ? <Badge kind="good">serves</Badge> : <Badge kind="bad">away</Badge>}{' '}
                {it.connections} connections
              </li>
            ))}
          </ul>
        </>
      )}
      <p class="faint">Graphs and alerts over time: Prometheus and Grafana read /metrics.</p>
    </>
  );
}
