/** Shown while there is no endpoint yet: three ways to create the first one, and an address that can be tried meanwhile. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { identifier, literal, shellWord } from '../quote.ts';
import { urlOf } from './address.tsx';
import { Code, lackingToCreate } from './components.tsx';
import { Icon } from './icons.tsx';
import { connected } from './live.ts';
import { to } from './route.ts';
import { me } from './server.ts';
import { Text } from './text.tsx';

export function FirstSteps(): JSX.Element {
  // The one that "Catch anything" offers, so that what is sent to it before is not lost on another name.
  const [name] = useState(
    () => `inbox_${crypto.getRandomValues(new Uint32Array(1))[0]?.toString(16).slice(0, 4)}`,
  );
  const lacking = lackingToCreate();
  const sees = me.value?.superuser === true;
  if (lacking !== null)
    return (
      <section class="first">
        <h2>You have no endpoint in this database.</h2>
        <p>
          <Text of={lacking} max={300} /> Endpoints of other roles are not shown. Let the owner of a schema
          grant it, or the owner of a table name you as its reader:
        </p>
        <Code
          text={`GRANT CREATE ON SCHEMA public TO ${identifier(me.value?.role ?? '')};\nALTER TABLE their_table SET (readers = ${literal(me.value?.role ?? '')});`}
          isSql
        />
      </section>
    );
  return (
    <section class="first">
      <h2>{sees ? 'Ready. Nothing has been received yet.' : 'You have no endpoint in this database yet.'}</h2>
      <p class="faint">
        A table is an endpoint. Make one, and the first request appears here.
        {sees ? '' : ' Endpoints of other roles are not shown.'}
      </p>
      <div class="cards">
        <a class="card" data-row href={to(['new', 'sender'])}>
          <Icon name="endpoints" />
          <b>From a sender</b>
          <span>
            GitHub, Stripe, Slack and more: the signature is checked, and the steps at the sender are shown.
          </span>
          <span class="button primary">Choose a sender</span>
        </a>
        <a class="card" data-row href={to(['new', 'anything'], { name })}>
          <Icon name="events" />
          <b>Catch anything</b>
          <span>A table that accepts every JSON document. Open to anyone who knows its address.</span>
          <span class="button">Make one</span>
        </a>
        <a class="card" data-row href={to(['sql'])}>
          <Icon name="sql" />
          <b>Write SQL</b>
          <span>Columns, keys, your own check: CREATE TABLE … VALIDATE.</span>
          <span class="button">Open SQL</span>
        </a>
      </div>
      <section class="card listening">
        <div class="row-of">
          <span class={connected.value ? 'waiting-dot pulse' : 'dot'} />
          <h2 class="grow">Listening for the first request</h2>
          <span class="faint" role="status">
            {connected.value ? 'connected' : 'not connected, retrying'}
          </span>
        </div>
        <Code text={`curl -d '{"hello":"world"}' ${shellWord(urlOf('public', name))}`} />
        <p class="faint">It is refused with 404 until a table {name} exists: “Catch anything” makes it.</p>
      </section>
    </section>
  );
}
