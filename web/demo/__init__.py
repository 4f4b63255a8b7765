"""The demo's pages: an app that registers itself, where SLUICE_DEMO is not 0. Nothing imports
it.
"""
