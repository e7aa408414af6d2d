/** What somebody sees who has no endpoint yet: three ways to the first one. */
import type { JSX } from 'preact';
import { to } from './route.ts';

export function FirstSteps(): JSX.Element {
  return (
    <section class="first">
      <h2>No endpoint yet</h2>
      <p class="faint">A table is an endpoint. Three ways to the first one:</p>
      <div class="cards">
        <a class="card" data-row href={to(['new', 'sender'])}>
          <b>From a sender</b>
          <span>
            GitHub, Stripe, Slack and more: the signature is checked, what to click there stands beside it.
          </span>
        </a>
        <a class="card" data-row href={to(['new', 'anything'])}>
          <b>Catch anything</b>
          <span>A table that takes every JSON document. Open to anyone who knows its address.</span>
        </a>
        <a class="card" data-row href={to(['sql'])}>
          <b>Write SQL</b>
          <span>Columns, keys, a check of your own: CREATE TABLE … VALIDATE.</span>
        </a>
      </div>
    </section>
  );
}
