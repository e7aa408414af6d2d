/** Dropbox. */
import { code, none, page, silent, unfound } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { numeric } from '../signing.ts';

export const dropbox: Sender = hmacBody({
  id: 'dropbox',
  name: 'Dropbox',
  headers: ['X-Dropbox-Signature'],
  secret: { what: 'the app secret', where: 'App Console → the app → Settings' },
  delivery: none(
    'Dropbox’s notifications only name the accounts that have changed, and have no id',
    code('dropbox/mdwebhook, app.py'),
    'Fetch the changes through the API: after a repeated notification there are none.',
  ),
  answer: {
    what: 'a 2xx within 10 seconds',
    from: page('dropbox.com/developers/reference/webhooks, “Best practices”', 'November 2026'),
  },
  evidence: {
    secret: code('dropbox/mdwebhook, app.py'),
    retries: unfound(),
    signature: code('dropbox/mdwebhook, app.py'),
    handshake: code('dropbox/mdwebhook, app.py'),
    rotation: silent('dropbox/mdwebhook'),
  },
  steps: ['Open the App Console → the app → Settings → Webhooks and add the URL of the table.'],
  notes: ['A notification names the accounts that changed; fetch the changes through the API.'],
  example: ({ id }) => ({
    list_folder: { accounts: [`dbid:${id}`] },
    delta: { users: [numeric(id)] },
  }),
});
