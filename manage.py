#!/usr/bin/env python
"""Django's entry point for the shell: `python manage.py <command> --help`."""

from __future__ import annotations

from controlplane.node.command_line import main

if __name__ == "__main__":
    main()
