"""The help of every management command of Sluice is a plain sentence that starts with a verb."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import pytest
from django.core.management import BaseCommand, get_commands, load_command_class

VERBS = {
    *("Approve", "Check", "Compare", "Copy", "Create", "Delete", "Generate", "Grant", "List"),
    *("Load", "Manage", "Print", "Read", "Rebuild", "Register", "Restore", "Roll", "Run", "Show"),
    *("Start", "Stop"),
}
"""What the help of a command may begin with. Add a verb when a new command needs it."""
OURS = sorted(name for name, app in get_commands().items() if app.startswith("controlplane."))


def test_every_command_has_a_help_that_begins_with_a_verb_and_ends_with_a_period() -> None:
    helps = {name: load(name).help for name in OURS}

    assert {
        name: text
        for name, text in helps.items()
        if text.split(" ")[0].strip(",") not in VERBS or not text.endswith(".") or "\n" in text
    } == {}


@pytest.mark.parametrize("name", OURS)
def test_every_action_and_argument_of_a_command_is_explained(name: str) -> None:
    parser = load(name).create_parser("manage.py", name)

    assert list(find_unexplained(parser)) == []


def load(name: str) -> BaseCommand:
    return load_command_class(get_commands()[name], name)


def find_unexplained(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the actions and arguments that have no help, those of actions included."""
    for argument in parser._actions:
        if isinstance(argument, argparse._SubParsersAction):
            explained = {choice.dest for choice in argument._choices_actions if choice.help}
            yield from set(argument.choices) - explained
            for action, of_action in argument.choices.items():
                yield from (f"{action} {each}" for each in find_unexplained(of_action))
        elif not argument.help:
            yield argument.dest
