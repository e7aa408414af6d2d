/** Every sender that Headgate knows, one file a vendor. Of several that check alike, the first gives a check its name. */
import { acrobatSign } from './known/acrobat-sign.ts';
import { adobeIo } from './known/adobe-io.ts';
import { adyen } from './known/adyen.ts';
import { airtable } from './known/airtable.ts';
import { alertmanager } from './known/alertmanager.ts';
import { anySender } from './known/any-sender.ts';
import { apideck } from './known/apideck.ts';
import { appStore } from './known/app-store.ts';
import { asana } from './known/asana.ts';
import { atlassianConnect } from './known/atlassian-connect.ts';
import { auth0 } from './known/auth0.ts';
import { awsEventbridge } from './known/aws-eventbridge.ts';
import { awsSns } from './known/aws-sns.ts';
import { azureEventGrid } from './known/azure-event-grid.ts';
import { bigcommerce } from './known/bigcommerce.ts';
import { bitbucket } from './known/bitbucket.ts';
import { box } from './known/box.ts';
import { braintree } from './known/braintree.ts';
import { buildkite } from './known/buildkite.ts';
import { calCom } from './known/cal-com.ts';
import { calendly } from './known/calendly.ts';
import { chargebee } from './known/chargebee.ts';
import { checkout } from './known/checkout.ts';
import { circleci } from './known/circleci.ts';
import { clerk } from './known/clerk.ts';
import { clickup } from './known/clickup.ts';
import { clio } from './known/clio.ts';
import { cloudevents } from './known/cloudevents.ts';
import { cloudflareStream } from './known/cloudflare-stream.ts';
import { coinbase } from './known/coinbase.ts';
import { convoy } from './known/convoy.ts';
import { datadog } from './known/datadog.ts';
import { dimo } from './known/dimo.ts';
import { discord } from './known/discord.ts';
import { docusign } from './known/docusign.ts';
import { dropbox } from './known/dropbox.ts';
import { ebay } from './known/ebay.ts';
import { elevenlabs } from './known/elevenlabs.ts';
import { figma } from './known/figma.ts';
import { fitbit } from './known/fitbit.ts';
import { forgejo } from './known/forgejo.ts';
import { fusionauth } from './known/fusionauth.ts';
import { gitea } from './known/gitea.ts';
import { github } from './known/github.ts';
import { gitlab } from './known/gitlab.ts';
import { gocardless } from './known/gocardless.ts';
import { gogs } from './known/gogs.ts';
import { googleChannels } from './known/google-channels.ts';
import { googlePubsub } from './known/google-pubsub.ts';
import { grafana } from './known/grafana.ts';
import { hubspot } from './known/hubspot.ts';
import { intercom } from './known/intercom.ts';
import { jira } from './known/jira.ts';
import { keap } from './known/keap.ts';
import { klaviyo } from './known/klaviyo.ts';
import { kubernetesAudit } from './known/kubernetes-audit.ts';
import { lark } from './known/lark.ts';
import { lemonSqueezy } from './known/lemon-squeezy.ts';
import { line } from './known/line.ts';
import { linear } from './known/linear.ts';
import { linkedin } from './known/linkedin.ts';
import { mailchimp } from './known/mailchimp.ts';
import { mailgun } from './known/mailgun.ts';
import { mandrill } from './known/mandrill.ts';
import { meta } from './known/meta.ts';
import { microsoft } from './known/microsoft.ts';
import { mollie } from './known/mollie.ts';
import { monday } from './known/monday.ts';
import { mux } from './known/mux.ts';
import { notion } from './known/notion.ts';
import { nylas } from './known/nylas.ts';
import { okta } from './known/okta.ts';
import { onfleet } from './known/onfleet.ts';
import { openai } from './known/openai.ts';
import { paddle } from './known/paddle.ts';
import { pagerduty } from './known/pagerduty.ts';
import { patreon } from './known/patreon.ts';
import { paypalSender } from './known/paypal.ts';
import { paystack } from './known/paystack.ts';
import { pipedrive } from './known/pipedrive.ts';
import { plaid } from './known/plaid.ts';
import { postmark } from './known/postmark.ts';
import { prelude } from './known/prelude.ts';
import { pusher } from './known/pusher.ts';
import { quickbooks } from './known/quickbooks.ts';
import { razorpay } from './known/razorpay.ts';
import { resend } from './known/resend.ts';
import { revenuecat } from './known/revenuecat.ts';
import { ringcentral } from './known/ringcentral.ts';
import { rudderstack } from './known/rudderstack.ts';
import { salesforce } from './known/salesforce.ts';
import { sanity } from './known/sanity.ts';
import { segment } from './known/segment.ts';
import { sendgrid } from './known/sendgrid.ts';
import { sentry } from './known/sentry.ts';
import { shopify } from './known/shopify.ts';
import { slack } from './known/slack.ts';
import { smartsheet } from './known/smartsheet.ts';
import { smartthings } from './known/smartthings.ts';
import { square } from './known/square.ts';
import { standardWebhooks } from './known/standard-webhooks.ts';
import { strava } from './known/strava.ts';
import { stripe } from './known/stripe.ts';
import { supabase } from './known/supabase.ts';
import { svix } from './known/svix.ts';
import { telegram } from './known/telegram.ts';
import { telnyx } from './known/telnyx.ts';
import { toggl } from './known/toggl.ts';
import { trello } from './known/trello.ts';
import { twilio } from './known/twilio.ts';
import { twitch } from './known/twitch.ts';
import { typeform } from './known/typeform.ts';
import { vercel } from './known/vercel.ts';
import { viber } from './known/viber.ts';
import { vk } from './known/vk.ts';
import { webflow } from './known/webflow.ts';
import { websub } from './known/websub.ts';
import { wechat } from './known/wechat.ts';
import { woocommerce } from './known/woocommerce.ts';
import { workos } from './known/workos.ts';
import { wrike } from './known/wrike.ts';
import { x } from './known/x.ts';
import { xero } from './known/xero.ts';
import { zendesk } from './known/zendesk.ts';
import { zoom } from './known/zoom.ts';
import { polar } from './known/polar.ts';
import { retell } from './known/retell.ts';
import { livekit } from './known/livekit.ts';
import { cloudinary } from './known/cloudinary.ts';
import { customerIo } from './known/customer-io.ts';
import { front } from './known/front.ts';
import { persona } from './known/persona.ts';
import { recharge } from './known/recharge.ts';
import { tiktok } from './known/tiktok.ts';
import { tiktokShop } from './known/tiktok-shop.ts';
import { wix } from './known/wix.ts';
import { contentful } from './known/contentful.ts';
import { fireblocks } from './known/fireblocks.ts';
import { aftership } from './known/aftership.ts';
import { heroku } from './known/heroku.ts';
import { launchdarkly } from './known/launchdarkly.ts';
import { terraform } from './known/terraform.ts';
import { modernTreasury } from './known/modern-treasury.ts';
import { netlify } from './known/netlify.ts';
import { vonage } from './known/vonage.ts';
import { airwallex } from './known/airwallex.ts';
import { veriff } from './known/veriff.ts';
import { onfido } from './known/onfido.ts';
import { sumsub } from './known/sumsub.ts';
import { easypost } from './known/easypost.ts';
import { webex } from './known/webex.ts';
import { microsoftTeams } from './known/microsoft-teams.ts';
import { cloudflareNotifications } from './known/cloudflare-notifications.ts';
import { gumroad } from './known/gumroad.ts';
import { alchemy } from './known/alchemy.ts';
import { ashby } from './known/ashby.ts';
import { attentive } from './known/attentive.ts';
import { authorizeNet } from './known/authorize-net.ts';
import { bamboohr } from './known/bamboohr.ts';
import { cashfree } from './known/cashfree.ts';
import { circle } from './known/circle.ts';
import { commerceLayer } from './known/commerce-layer.ts';
import { courier } from './known/courier.ts';
import { cursor } from './known/cursor.ts';
import { daily } from './known/daily.ts';
import { dwolla } from './known/dwolla.ts';
import { fastspring } from './known/fastspring.ts';
import { flutterwave } from './known/flutterwave.ts';
import { getstream } from './known/getstream.ts';
import { ghost } from './known/ghost.ts';
import { greenhouse } from './known/greenhouse.ts';
import { gusto } from './known/gusto.ts';
import { helpScout } from './known/help-scout.ts';
import { attio } from './known/attio.ts';
import { metronome } from './known/metronome.ts';
import { tailscale } from './known/tailscale.ts';
import { langfuse } from './known/langfuse.ts';
import { infisical } from './known/infisical.ts';
import { planetscale } from './known/planetscale.ts';
import { plain } from './known/plain.ts';
import { firecrawl } from './known/firecrawl.ts';
import { hookdeck } from './known/hookdeck.ts';
import { vapi } from './known/vapi.ts';
import { kick } from './known/kick.ts';
import { fourthwall } from './known/fourthwall.ts';
import { close } from './known/close.ts';
import { crisp } from './known/crisp.ts';
import { chatwoot } from './known/chatwoot.ts';
import { tally } from './known/tally.ts';
import { acuity } from './known/acuity.ts';
import { savvycal } from './known/savvycal.ts';
import { snyk } from './known/snyk.ts';
import { pandadoc } from './known/pandadoc.ts';
import { recurly } from './known/recurly.ts';
import { squarespace } from './known/squarespace.ts';
import { huggingface } from './known/huggingface.ts';
import { xendit } from './known/xendit.ts';
import { wise } from './known/wise.ts';
import { lever } from './known/lever.ts';
import { checkr } from './known/checkr.ts';
import { messagebird } from './known/messagebird.ts';
import { surveymonkey } from './known/surveymonkey.ts';
import { storyblok } from './known/storyblok.ts';
import { kontentAi } from './known/kontent-ai.ts';
import { sonarqube } from './known/sonarqube.ts';
import { todoist } from './known/todoist.ts';
import { frameIo } from './known/frame-io.ts';
import { rootly } from './known/rootly.ts';
import { mailerlite } from './known/mailerlite.ts';
import { sendbird } from './known/sendbird.ts';
import { chargify } from './known/chargify.ts';
import { uber } from './known/uber.ts';
import { fireflies } from './known/fireflies.ts';
import { deel } from './known/deel.ts';
import { workable } from './known/workable.ts';
import { btcpay } from './known/btcpay.ts';
import { mercadoPago } from './known/mercado-pago.ts';
import { paymongo } from './known/paymongo.ts';
import { asaas } from './known/asaas.ts';
import { unit } from './known/unit.ts';
import { column } from './known/column.ts';
import { sinch } from './known/sinch.ts';
import { whereby } from './known/whereby.ts';
import { bland } from './known/bland.ts';
import { npm } from './known/npm.ts';
import { dub } from './known/dub.ts';
import { midtrans } from './known/midtrans.ts';
import { monnify } from './known/monnify.ts';
import { dropboxSign } from './known/dropbox-sign.ts';
import { anthropic } from './known/anthropic.ts';
import { kinde } from './known/kinde.ts';
import { gong } from './known/gong.ts';
import { livechat } from './known/livechat.ts';
import { aircall } from './known/aircall.ts';
import { prismic } from './known/prismic.ts';
import type { Sender } from './sender.ts';

export const knownSenders: readonly Sender[] = [
  github,
  bitbucket,
  gitea,
  forgejo,
  gogs,
  jira,
  vercel,
  sentry,
  notion,
  asana,
  airtable,
  shopify,
  woocommerce,
  razorpay,
  paystack,
  mollie,
  gocardless,
  coinbase,
  adyen,
  xero,
  typeform,
  calCom,
  patreon,
  segment,
  intercom,
  meta,
  dropbox,
  docusign,
  x,
  line,
  pusher,
  convoy,
  pagerduty,
  circleci,
  clickup,
  nylas,
  onfleet,
  smartsheet,
  linkedin,
  toggl,
  viber,
  fitbit,
  klaviyo,
  quickbooks,
  lemonSqueezy,
  checkout,
  websub,
  stripe,
  mux,
  paddle,
  calendly,
  workos,
  cloudflareStream,
  elevenlabs,
  buildkite,
  sanity,
  slack,
  zoom,
  zendesk,
  webflow,
  grafana,
  twitch,
  box,
  linear,
  standardWebhooks,
  svix,
  openai,
  clerk,
  resend,
  supabase,
  gitlab,
  sendgrid,
  paypalSender,
  awsSns,
  plaid,
  fusionauth,
  monday,
  atlassianConnect,
  discord,
  telnyx,
  ebay,
  adobeIo,
  appStore,
  square,
  trello,
  twilio,
  mandrill,
  hubspot,
  mailgun,
  braintree,
  telegram,
  okta,
  auth0,
  awsEventbridge,
  rudderstack,
  datadog,
  chargebee,
  postmark,
  bigcommerce,
  anySender,
  figma,
  microsoft,
  strava,
  lark,
  vk,
  acrobatSign,
  ringcentral,
  googleChannels,
  revenuecat,
  pipedrive,
  alertmanager,
  kubernetesAudit,
  cloudevents,
  azureEventGrid,
  googlePubsub,
  salesforce,
  ...mailchimp,
  wechat,
  keap,
  clio,
  wrike,
  prelude,
  apideck,
  dimo,
  smartthings,
  polar,
  retell,
  livekit,
  cloudinary,
  customerIo,
  front,
  persona,
  recharge,
  tiktok,
  tiktokShop,
  wix,
  contentful,
  fireblocks,
  aftership,
  heroku,
  launchdarkly,
  terraform,
  modernTreasury,
  netlify,
  vonage,
  airwallex,
  veriff,
  onfido,
  sumsub,
  easypost,
  webex,
  microsoftTeams,
  cloudflareNotifications,
  gumroad,
  alchemy,
  ashby,
  attentive,
  authorizeNet,
  bamboohr,
  cashfree,
  circle,
  commerceLayer,
  courier,
  cursor,
  daily,
  dwolla,
  fastspring,
  flutterwave,
  getstream,
  ghost,
  greenhouse,
  gusto,
  helpScout,
  attio,
  metronome,
  tailscale,
  langfuse,
  infisical,
  planetscale,
  plain,
  firecrawl,
  hookdeck,
  vapi,
  kick,
  fourthwall,
  close,
  crisp,
  chatwoot,
  tally,
  acuity,
  savvycal,
  snyk,
  pandadoc,
  recurly,
  squarespace,
  huggingface,
  xendit,
  wise,
  lever,
  checkr,
  messagebird,
  surveymonkey,
  storyblok,
  kontentAi,
  sonarqube,
  todoist,
  frameIo,
  rootly,
  mailerlite,
  sendbird,
  chargify,
  uber,
  fireflies,
  deel,
  workable,
  btcpay,
  mercadoPago,
  paymongo,
  asaas,
  unit,
  column,
  sinch,
  whereby,
  bland,
  npm,
  dub,
  midtrans,
  monnify,
  dropboxSign,
  anthropic,
  kinde,
  gong,
  livechat,
  aircall,
  prismic,
].flat();
