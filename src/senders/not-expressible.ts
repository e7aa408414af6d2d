/** Senders of which a VALIDATE expression cannot say what has to be said, each with the reason. */
export const unsupported: readonly { readonly name: string; readonly reason: string }[] = [
  {
    name: 'Contentful',
    reason:
      'a header names the headers that are signed, in their order; the language has no loop over a list. A shared text in a custom header works: `USING api_key`, or an expression with that header.',
  },
  {
    name: 'Microsoft Graph change notifications',
    reason:
      '`clientState` has to be compared in every item of the body, and rich notifications hold a list of tokens; the language has no loop over a list. Graph also wants a `validationToken` back when the subscription is made.',
  },
  {
    name: 'Azure Event Grid',
    reason:
      'by default nothing is signed, and the URL is handed out only after a validation request was answered, which Headgate does not do. With a bearer token of Microsoft Entra an expression with `jwt_verify` can check the deliveries.',
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
