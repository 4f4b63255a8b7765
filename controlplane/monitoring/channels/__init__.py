"""Channels that receive alerts: mail, webhooks, and services that `apprise` supports.

Alerts become messages (`notifications`). Messages are sent in attempts (`deliveries`, `senders`).
"""
