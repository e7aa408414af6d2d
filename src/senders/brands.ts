/**
 * Services without an entry of their own, by the name under which people look for them: most of them send through Svix, in the form of
 * Standard Webhooks. Takes a name, returns a hint. Pure.
 */

/** The name in SQL → the name of the service. Their headers begin with `svix-` or `webhook-`, which says which of the two it is. */
export const standardBrands: Readonly<Record<string, string>> = {
  brex: 'Brex',
  incident_io: 'incident.io',
  liveblocks: 'Liveblocks',
  lob: 'Lob',
  recall_ai: 'Recall.ai',
  render: 'Render',
  stytch: 'Stytch',
};

/** Services whose requests cannot be checked, or not by a name, and what there is instead. */
const others: Readonly<Record<string, string>> = {
  contentful:
    'Contentful signs its path, a list of headers and the body: spell the check out for the headers that you send.',
  dropbox_sign: 'Dropbox Sign sends multipart/form-data, which tables do not take.',
  hellosign: 'Dropbox Sign sends multipart/form-data, which tables do not take.',
  jotform: 'Jotform sends multipart/form-data, which tables do not take.',
  google_chat: 'Google Chat expects an answer that is computed from the request.',
  alexa: 'Alexa expects an answer that is computed from the request.',
  google: 'Google has several: USING google_pubsub, google_play, google_channels or youtube.',
  microsoft: 'Microsoft has several: USING microsoft_graph, sharepoint or azure_event_grid.',
  aws: 'AWS has several: USING aws_sns or aws_eventbridge.',
  amazon: 'AWS has several: USING aws_sns or aws_eventbridge.',
  adobe: 'Adobe has several: USING adobe_io or acrobat_sign.',
  supabase: 'Supabase has two: USING supabase_auth or supabase_database.',
  atlassian: 'Atlassian has several: USING jira or bitbucket.',
};

/** A sentence about a name that is no sender; null: nothing is known of it. */
export function hintFor(name: string): string | null {
  const wanted = plain(name);
  const brand = Object.entries(standardBrands).find(([id, brand]) =>
    [plain(id), plain(brand)].includes(wanted),
  );
  if (brand !== undefined)
    return `${brand[1]} sends in the form of Standard Webhooks: USING svix if its headers begin with svix-, USING standard_webhooks if they begin with webhook-.`;
  return Object.entries(others).find(([id]) => plain(id) === wanted)?.[1] ?? null;
}

const plain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
