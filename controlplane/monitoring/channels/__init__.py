"""Who is sent word of alerts: by mail, by a webhook, or by a service that `apprise` knows.

Alerts become messages (`announcing`), and messages are sent in attempts (`delivering`, `senders`).
"""
