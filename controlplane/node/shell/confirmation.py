"""The words that carry a plan out."""

from __future__ import annotations

from argparse import ArgumentParser


def add_confirmation(parser: ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="carry the plan out")
    parser.add_argument("--plan-hash", default="", help="carry out this plan, or nothing")
    parser.add_argument("--reason", default="", help="for the audit")
