// The option reconcile against Stripe's own stand-in for its API, which comes from the Go module proxy: `npm run test:stripe`. HEADGATE_STRIPE_MOCK can name
// a program that was built before. docs/reconcile.md says what was tried.
import { join } from 'node:path';
import { must, temporary, tests } from './commands.mjs';

const version = 'v0.203.0';
const given = process.env['HEADGATE_STRIPE_MOCK'];
const program = given ?? join(temporary('stripe-mock'), 'stripe-mock');
if (given === undefined)
  must('go', ['install', `github.com/stripe/stripe-mock@${version}`], {
    env: { ...process.env, GOBIN: join(program, '..') },
  });
tests('dist/test/stripe/stripe.js', { HEADGATE_STRIPE_MOCK: program });
