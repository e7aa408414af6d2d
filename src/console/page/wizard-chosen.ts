/** Types only: what the steps of the wizard pass to each other. */
import type { SenderInfo } from '../api.ts';
import type { HmacForm } from '../custom-hmac.ts';

/** What was chosen in the first step. */
export type ChosenSender =
  | { readonly kind: 'sender'; readonly sender: SenderInfo }
  | { readonly kind: 'hmac'; readonly form: HmacForm }
  | { readonly kind: 'anything' };
