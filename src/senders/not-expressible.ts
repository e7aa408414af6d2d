/** Senders whose requests a VALIDATE expression cannot check, each with the reason. */
export const unsupported: readonly { readonly name: string; readonly reason: string }[] = [
  {
    name: 'Contentful',
    reason:
      'a header names the headers that are signed, in their order; the language has no loop over a list. A shared text in a custom header works: `USING api_key`, or an expression with that header.',
  },
  {
    name: 'Microsoft Graph, rich notifications',
    reason:
      'the tokens of `validationTokens` are a list, and the language has no loop over a list; encrypted content needs a private key. `USING microsoft_graph` compares `clientState`.',
  },
  {
    name: 'Dropbox Sign',
    reason: 'it sends `multipart/form-data`, which is none of the formats of a table.',
  },
  {
    name: 'WeCom, WeChat in its encrypted modes, and Lark with an encrypt key',
    reason: 'the body is encrypted with AES; the language does not decrypt.',
  },
  {
    name: 'Google Pub/Sub, Azure Event Grid and others with tokens of an identity provider',
    reason:
      'the keys that sign the tokens change every few days and have to be fetched; an expression never fetches anything. A text in the URL is compared instead: `USING google_pubsub`, `USING azure_event_grid`.',
  },
  {
    name: 'Alexa, Dialogflow, Google Chat and others that want an answer made of the request',
    reason:
      'a table stores and says thanks; what a person is to read or hear has to come from an application.',
  },
  {
    name: 'Atlassian Connect, the `qsh` claim',
    reason:
      'it is a digest of the sorted and escaped query; the language cannot sort a query. `USING atlassian_connect` checks the token without it.',
  },
  {
    name: 'AWS SNS and PayPal, without a pinned certificate',
    reason:
      'the request names a URL where the certificate is found; an expression never fetches anything. The certificate goes into the secret instead.',
  },
];
