/** Convoy. */
import { code } from '../evidence.ts';
import { header, hmac } from '../expressions.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';

export const convoy: Sender = hmacBody({
  id: 'convoy',
  name: 'Convoy (simple signatures)',
  algorithm: 'sha512',
  headers: ['X-Convoy-Signature'],
  // Convoy lets the project choose; it begins with SHA-256 in hexadecimal.
  expression: (s) =>
    [
      ['sha256', 'hex'],
      ['sha512', 'hex'],
      ['sha256', 'base64'],
    ]
      .map(
        ([algorithm = '', encoding]) =>
          `secure_compare(${header('X-Convoy-Signature')}, ${hmac(s, 'payload', algorithm, encoding === 'hex' ? 'hex' : 'base64')})`,
      )
      .join('\n  OR '),
  evidence: { signature: code('frain-dev/convoy, pkg/signature and pkg/verifier/verifier.go') },
  secret: { what: 'the endpoint’s secret', where: 'in the endpoint’s settings' },
  steps: [
    'Add the URL of the table as an endpoint of the project; simple signatures with SHA-256 or SHA-512 in hexadecimal, or SHA-256 in base64.',
  ],
  example: ({ id }) => ({ event_type: 'invoice.paid', data: { id, amount: 1999 } }),
});
