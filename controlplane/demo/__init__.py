"""The demo's part of the control plane: an app that registers itself, where SLUICE_DEMO is not 0.
Nothing imports it but what is the demo's as well.
"""
