/** HCP Terraform and Terraform Enterprise. */
import { report } from '../evidence.ts';
import { hmacBody } from '../hmac-body.ts';
import type { Sender } from '../sender.ts';
import { isoTime } from '../signing.ts';

export const terraform: Sender = hmacBody({
  id: 'terraform',
  aliases: ['terraform_cloud', 'hcp_terraform', 'tfe'],
  name: 'HCP Terraform and Terraform Enterprise',
  algorithm: 'sha512',
  headers: ['X-TFE-Notification-Signature'],
  secret: { what: 'the notification’s token', where: 'you choose it' },
  evidence: { signature: report('several public receivers, read in November 2026') },
  steps: [
    'Open the workspace’s Settings → Notifications → Create, type Webhook, with the URL of the table and a token.',
  ],
  notes: ['Saving the notification sends a verification request, signed like any other: it becomes a row.'],
  example: ({ id, nowMs }) => ({
    payload_version: 1,
    notification_configuration_id: `nc-${id.slice(0, 16)}`,
    run_id: `run-${id.slice(0, 16)}`,
    notifications: [{ message: 'Run Completed', trigger: 'run:completed', run_updated_at: isoTime(nowMs) }],
  }),
});
