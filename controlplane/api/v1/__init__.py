"""Version 1: one class per endpoint, each parses, asks for access, calls one service."""
