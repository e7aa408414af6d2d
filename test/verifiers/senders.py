"""The senders' packages for Python. Reads one JSON object from standard input, prints one.

{"do": "sign", "sender", "secret", "url", "body"}          -> {"headers": {...}, "query": "..."}
{"do": "check", "sender", "secret", "url", "headers", "body"} -> {"accepted": true or false}
"""

import base64
import datetime
import json
import sys
import time
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import cryptography.exceptions
import cryptography.hazmat.primitives.serialization
import linebot.v3.webhook
import paypalrestsdk.notifications
import slack_sdk.signature
import standardwebhooks
import stripe
import svix.webhooks
import twilio.request_validator
import wechatpy.exceptions
import wechatpy.utils
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding


def webhook_ids(prefix, package, secret, body):
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    return {
        f"{prefix}-id": "msg_1",
        f"{prefix}-timestamp": str(int(now.timestamp())),
        f"{prefix}-signature": package(secret).sign("msg_1", now, body),
    }


def sign(sender, secret, url, body):
    now = str(int(time.time()))
    if sender == "svix":
        return webhook_ids("svix", svix.webhooks.Webhook, secret, body), ""
    if sender == "standard_webhooks":
        return webhook_ids("webhook", standardwebhooks.Webhook, secret, body), ""
    if sender == "slack":
        made = slack_sdk.signature.SignatureVerifier(secret).generate_signature(timestamp=now, body=body)
        return {"X-Slack-Request-Timestamp": now, "X-Slack-Signature": made}, ""
    if sender == "stripe":
        made = stripe.WebhookSignature._compute_signature(f"{now}.{body}", secret)
        return {"Stripe-Signature": f"t={now},v1={made}"}, ""
    if sender == "twilio_form":
        validator = twilio.request_validator.RequestValidator(secret)
        made = validator.compute_signature(url, dict(parse_qsl(body)))
        return {"X-Twilio-Signature": made, "Content-Type": "application/x-www-form-urlencoded"}, ""
    if sender == "wechat":
        signer = wechatpy.utils.WeChatSigner()
        signer.add_data(secret, now, "123456")
        query = {"signature": signer.signature, "timestamp": now, "nonce": "123456"}
        return {"Content-Type": "text/xml"}, "?" + urlencode(query)
    raise ValueError(sender)


def check(sender, secret, url, headers, body):
    if sender == "svix":
        # It raises, and otherwise gives the event, or in newer versions nothing.
        svix.webhooks.Webhook(secret).verify(body, headers)
        return True
    if sender == "standard_webhooks":
        return standardwebhooks.Webhook(secret).verify(body, headers) is not None
    if sender == "slack":
        return slack_sdk.signature.SignatureVerifier(secret).is_valid_request(body, headers)
    if sender == "stripe":
        return stripe.Webhook.construct_event(body, headers["stripe-signature"], secret) is not None
    if sender == "twilio_form":
        validator = twilio.request_validator.RequestValidator(secret)
        return validator.validate(url, dict(parse_qsl(body)), headers["x-twilio-signature"])
    if sender == "paypal":
        # Its `verify` fetches the certificate from PayPal and wants PayPal's root: what it says is the text that is signed.
        at = {name.lower(): value for name, value in headers.items()}
        keys = json.loads(secret)
        names = ("paypal-transmission-id", "paypal-transmission-time")
        event = paypalrestsdk.notifications.WebhookEvent
        text = event._get_expected_sig(*(at[name] for name in names), keys["webhook_id"], body)
        key = cryptography.hazmat.primitives.serialization.load_pem_public_key(keys["cert"].encode())
        signature = base64.b64decode(at["paypal-transmission-sig"])
        try:
            key.verify(signature, text.encode(), padding.PKCS1v15(), hashes.SHA256())
        except cryptography.exceptions.InvalidSignature:
            return False
        return True
    if sender == "line":
        return linebot.v3.webhook.SignatureValidator(secret).validate(body, headers["x-line-signature"])
    if sender == "wechat":
        query = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        wechatpy.utils.check_signature(secret, query["signature"], query["timestamp"], query["nonce"])
        return True
    raise ValueError(sender)


asked = json.load(sys.stdin)
given = {name: asked[name] for name in ("sender", "secret", "url", "body")}
if asked["do"] == "sign":
    headers, query = sign(**given)
    print(json.dumps({"headers": headers, "query": query}))
else:
    received = {name.lower(): value for name, value in asked["headers"].items()}
    # Each package has an exception of its own for what it does not accept.
    try:
        accepted = bool(check(headers=received, **given))
    except (
        svix.webhooks.WebhookVerificationError,
        standardwebhooks.WebhookVerificationError,
        stripe.SignatureVerificationError,
        wechatpy.exceptions.InvalidSignatureException,
    ):
        accepted = False
    print(json.dumps({"accepted": accepted}))
