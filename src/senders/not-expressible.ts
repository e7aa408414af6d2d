/** Senders whose requests a VALIDATE expression cannot check, each with the reason. */
export const unsupported: readonly { readonly name: string; readonly reason: string }[] = [
  {
    name: 'Microsoft Graph, rich notifications',
    reason:
      'the tokens of `validationTokens` are a list, and an expression cannot loop over a list; encrypted content needs a private key. `USING microsoft_graph` compares `clientState`.',
  },
  {
    name: 'WeCom, WeChat in its encrypted modes, and Lark with an encrypt key',
    reason: 'the body is encrypted with AES, and an expression cannot decrypt.',
  },
  {
    name: 'Alexa, Dialogflow, Google Chat and others that expect an answer computed from the request',
    reason:
      'a table stores a request and acknowledges it; an answer for a person to read or hear has to come from an application.',
  },
  {
    name: 'Atlassian Connect, the `qsh` claim',
    reason:
      'it is a digest of the sorted and escaped query, and an expression cannot sort a query. `USING atlassian_connect` checks the token without it.',
  },
  {
    name: 'AWS SNS and PayPal, without a pinned certificate',
    reason:
      'the request names the URL of the certificate, and an expression never fetches anything. The certificate goes into the secret instead.',
  },
  {
    name: 'Hygraph',
    reason:
      'it signs a JSON text that contains the body as an escaped string and the time as a number, and an expression cannot escape one.',
  },
];
