"""The demo's part of the engine: ad requests as three streams, writers that meet on purpose, and
orders with a broker of their own. Nothing imports it but what is the demo's as well.
"""
