/** Hugging Face. */
import { code } from '../evidence.ts';
import { tokenHeader, chosen } from '../token-forms.ts';
import type { Sender } from '../sender.ts';

export const huggingface: Sender = tokenHeader('plain', {
  id: 'huggingface',
  aliases: ['hugging_face', 'hf'],
  name: 'Hugging Face',
  headers: ['X-Webhook-Secret'],
  secret: chosen(),
  evidence: {
    signature: code('huggingface/huggingface_hub ee0a451, src/huggingface_hub/_webhooks_server.py'),
  },
  steps: ['Open Settings → Webhooks → Add with the URL of the table and a secret.'],
  example: ({ id }) => ({
    event: { action: 'update', scope: 'repo.content' },
    repo: { type: 'model', name: 'acme/café', id: id.slice(0, 24) },
    webhook: { id: id.slice(0, 24), version: 3 },
  }),
});
