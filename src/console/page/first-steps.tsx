/** Shown while there is no endpoint yet: three ways to create the first one. */
import type { JSX } from 'preact';
import { Icon } from './icons.tsx';
import { to } from './route.ts';

export function FirstSteps(): JSX.Element {
  return (
    <section class="first">
      <h2>Ready. Nothing has been received yet.</h2>
      <p class="faint">A table is an endpoint. Make one, and the first request appears here.</p>
      <div class="cards">
        <a class="card" data-row href={to(['new', 'sender'])}>
          <Icon name="endpoints" />
          <b>From a sender</b>
          <span>
            GitHub, Stripe, Slack and more: the signature is checked, and the steps at the sender are shown.
          </span>
        </a>
        <a class="card" data-row href={to(['new', 'anything'])}>
          <Icon name="events" />
          <b>Catch anything</b>
          <span>A table that accepts every JSON document. Open to anyone who knows its address.</span>
        </a>
        <a class="card" data-row href={to(['sql'])}>
          <Icon name="sql" />
          <b>Write SQL</b>
          <span>Columns, keys, your own check: CREATE TABLE … VALIDATE.</span>
        </a>
      </div>
    </section>
  );
}
