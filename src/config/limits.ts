/**
 * Every bound of Headgate: name, value, unit last. A bound that a user may change is also a setting (settings.ts) whose
 * default is here; exceeding any of them is a refusal from refusals.ts. Each part has a file of its own.
 */
import { acmeLimits } from './limits-acme.ts';
import { alertLimits } from './limits-alerts.ts';
import { answerLimits } from './limits-answers.ts';
import { checkLimits } from './limits-checks.ts';
import { commandLimits } from './limits-commands.ts';
import { commitLimits } from './limits-commit.ts';
import { consoleLimits } from './limits-console.ts';
import { doorLimits } from './limits-doors.ts';
import { gatewayLimits } from './limits-gateway.ts';
import { processLimits } from './limits-process.ts';
import { requestLimits } from './limits-requests.ts';
import { keepLimits } from './limits-keep.ts';
import { operatorLimits } from './limits-operator.ts';
import { reconcileLimits } from './limits-reconcile.ts';
import { spoolLimits } from './limits-spool.ts';
import { telemetryLimits } from './limits-telemetry.ts';

export const limits = {
  ...requestLimits,
  ...commitLimits,
  ...commandLimits,
  ...checkLimits,
  ...consoleLimits,
  ...doorLimits,
  ...gatewayLimits,
  ...processLimits,
  ...spoolLimits,
  ...answerLimits,
  ...acmeLimits,
  ...alertLimits,
  ...keepLimits,
  ...operatorLimits,
  ...telemetryLimits,
  ...reconcileLimits,
} as const;

export type Limits = { readonly [name in keyof typeof limits]: number };
