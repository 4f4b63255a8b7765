"""Requests to addresses that people give: webhooks and the services behind them.

`addresses` says where one may lead, `sending` connects to what was said and to nothing else.
Nothing of the control plane opens an address of a user's in another way.
"""
