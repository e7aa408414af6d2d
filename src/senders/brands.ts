/** Names that are no sender, and what there is instead. Takes a name, returns a hint. Pure. */

/** Services whose requests cannot be checked, or not by a name, and what there is instead. */
const others: Readonly<Record<string, string>> = {
  jotform:
    "Jotform signs nothing: a table with format = 'form' takes its multipart/form-data, and a text of yours in the URL guards it, secure_compare(query->>'token', s).",
  google_chat: 'Google Chat expects an answer that is computed from the request.',
  alexa: 'Alexa expects an answer that is computed from the request.',
  google: 'Google has several: USING google_pubsub, google_play, google_channels or youtube.',
  microsoft: 'Microsoft has several: USING microsoft_graph, sharepoint or azure_event_grid.',
  aws: 'AWS has several: USING aws_sns or aws_eventbridge.',
  amazon: 'AWS has several: USING aws_sns or aws_eventbridge.',
  adobe: 'Adobe has several: USING adobe_io or acrobat_sign.',
  supabase: 'Supabase has two: USING supabase_auth or supabase_database.',
  azure: 'Azure has USING azure_event_grid; Azure DevOps and Azure Monitor: USING basic_auth.',
  azure_devops: 'Azure DevOps sends the user and password of its service hook: USING basic_auth.',
  gmail: 'Gmail notifies through Pub/Sub: USING google_pubsub.',
  google_forms: 'Google Forms notifies through Pub/Sub: USING google_pubsub.',
  s3: 'S3 notifies through SNS or EventBridge: USING aws_sns or aws_eventbridge.',
  zapier: 'Zapier sends headers of your choice: USING bearer, basic_auth or api_key.',
  make: 'Make sends headers of your choice: USING bearer, basic_auth or api_key.',
  n8n: 'n8n sends headers of your choice: USING bearer, basic_auth or api_key.',
  freshdesk: 'Freshdesk sends headers of your choice: USING basic_auth or api_key.',
  opsgenie: 'Opsgenie sends headers of your choice: USING bearer, basic_auth or api_key.',
  google_fit:
    'Google Health has taken the place of Google Fit and Fitbit: its notifications are not known here yet.',
  atlassian: 'Atlassian has several: USING jira or bitbucket.',
};

/** A sentence about a name that is no sender; null: nothing is known of it. */
export function hintFor(name: string): string | null {
  const wanted = plain(name);
  return Object.entries(others).find(([id]) => plain(id) === wanted)?.[1] ?? null;
}

const plain = (name: string) => name.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
