/** Kubernetes audit. */
import type { Sender } from '../sender.ts';
import { isoTime, uuid } from '../signing.ts';
import { chosen, tokenHeader } from '../token-forms.ts';

export const kubernetesAudit: Sender = tokenHeader('bearer', {
  id: 'kubernetes_audit',
  aliases: ['kubernetes'],
  name: 'Kubernetes audit (webhook backend)',
  headers: ['Authorization'],
  secret: chosen(),
  steps: [
    'Write a kubeconfig with the URL of the table as `server` and the text of the secret as the user’s `token`, and start the API server with `--audit-webhook-config-file`.',
  ],
  notes: [
    'One request is a list of events, which is stored as one row. Each event occurs once for each stage: `auditID` and `stage` distinguish them.',
  ],
  example: ({ id, nowMs }) => ({
    kind: 'EventList',
    apiVersion: 'audit.k8s.io/v1',
    metadata: {},
    items: [
      {
        level: 'Metadata',
        auditID: uuid(id),
        stage: 'ResponseComplete',
        verb: 'create',
        requestReceivedTimestamp: isoTime(nowMs),
      },
    ],
  }),
});
