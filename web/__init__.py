"""The dashboard: pages, fragments of pages, charts and the live stream. It asks selectors and
services, never models.
"""
