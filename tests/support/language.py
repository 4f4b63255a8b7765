"""The language rules: patterns that plain English and plain names avoid, and how often each file
still has them.

`python -m tests.support.language` prints the counts of each rule and lowers the baseline where
files have fewer hits than it allows; `make language` does the same. It never raises a count.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.source_files import REPOSITORY, Module, modules, texts

BASELINE = REPOSITORY / "tests" / "language_baseline.json"
RULES_THEMSELVES = {
    *("tests/support/language.py", "tests/test_language.py", "docs/contributing.md"),
}
"""Files that contain the patterns because they define, test and explain them."""
SENTENCE_WORDS_MAX = 30


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern to avoid, and what to write in its place."""

    pattern: re.Pattern[str]
    instead: str


def _rule(pattern: str, instead: str, flags: int = re.IGNORECASE) -> Rule:
    return Rule(re.compile(pattern, flags), instead)


PROSE: dict[str, Rule] = {
    "L1": _rule(r"\b(?:whoever|whosever|whomever|whom)\b", "the actor: the writer, the user"),
    "L2": _rule(r"\b(?:somebody|nobody|everybody)\b", "the actor; 'no writer'"),
    "L3": _rule(r"\b(?:he|his|him|himself)\b", "they, their"),
    "L4": _rule(
        r"\b(?:hence|thereby|whereby|therein|thereof|lest|whence|anew|albeit)\b", "so, again"
    ),
    "L5": _rule(r"\b(?:tak(?:e|es|en|ing)|took)\b(?: \w+){0,4} back\b", "roll back, undo"),
    "L6": _rule(r"\bonce more\b", "again"),
    "L7": _rule(
        r"\b(?:is|are|was|were) no (?!longer\b|more than\b|such\b|need\b|way\b)[a-z]+",
        "is not a, invalid, 'there is no'",
    ),
    "L8": _rule(r"\b(?:no|not|any) more\b(?! than)", "no longer"),
    "L9": _rule(
        r"(?:^\W*|[.:] )Of (?:a|an|the|all|each|every|one|those|these|what|some|several|its|both"
        r"|two|it)\b",
        "subject first, then verb and object",
        re.MULTILINE,
    ),
    "L10": _rule(r"\bread (?:\w+ ){0,3}otherwise\b|\bread.alike\b|\bas others\b", "divergent read"),
    "L11": _rule(r"\b(?:sleepers?|slept|asleep)\b", "stalled"),
    "L12": _rule(r"\bhearts?\b", "heartbeat"),
    "L13": _rule(r"(?<!dead[ _-])(?<!\")\bletters?\b(?!\"|,? (?:and )?digits)", "dead letter"),
    "L14": _rule(r"\b(?:says?|said|tells?|told)\b", "report, record, return, state"),
    "L15": _rule(r"\b(?:look(?:s|ed|ing)? at|a look|looks)\b(?![ -]up\b)", "check, read, sample"),
    "L16": _rule(r"\b(?:stands?|lies|lie|lay)\b(?! (?:out|for)\b)", "is, is stored, exists"),
    "L17": _rule(r"\bbeside\b", "next to, concurrently with"),
    "L18": _rule(r"\bdoom(?:s|ed)?\b|\bin vain\b", "early conflict, wasted"),
    "L19": _rule(r"\b(?:word of|last word|no word|in words)\b", "report, message"),
    "L20": _rule(r"\b(?:hear|hears|heard|deaf)\b", "receive"),
    "L21": _rule(r"\b(?:give[sn]?|gave) (?:it |them )?back\b", "release, return"),
    "L22": _rule(r"\bby (?:itself|themselves)\b", "automatically"),
    "L23": _rule(r"\bgroups? of people\b|\bstatements? of (?:a person|people)\b", "user group"),
    "L24": _rule(r"\b(?:doors?|roads?|rooms?|owe[ds]?)\b", "endpoint, path, package"),
    "L25": _rule(r"\bn greatest\b|\bstated? again\b", "top-N, republish"),
    "L26": _rule(r"\bgo(?:es)? on\b", "continue"),
    "L27": _rule(
        r"\bmeanwhile\b|\bfor good\b|\bas ever\b|\bmend(?:ed|s)?\b",
        "since then, permanently, fix",
    ),
    "L28": _rule(r"\b(?:unwell|not well|is well)\b", "failing, healthy"),
}
"""Rules for comments, docstrings, strings, documents and templates."""

_PARTICIPLE = (
    r"(?:[a-z]+ed|told|said|found|known|given|taken|held|kept|left|gone|shown|made|met|brought"
    r"|sought|begun|seen|drawn)"
)
_VERBS_IN_ED = {"embed", "exceed", "feed", "need", "proceed", "seed", "shed", "speed", "succeed"}
_BARE_PARTICIPLE = re.compile(rf"_*{_PARTICIPLE}")
_PARTICIPLE_FIRST = re.compile(rf"_*({_PARTICIPLE})_\w+")
_NO_VERB_FIRST = re.compile(r"_*(?:may|tells|gives|takes|knows|wants|keeps)_\w+")
VAGUE_VALUES = {
    *("given", "known", "wanted", "shown", "made", "kept", "gone", "counted", "met", "taken"),
    *("said", "drawn", "settled", "sought", "brought"),
}
MODULE_NAMES_ALLOWED = {
    *("locking", "staging", "tagging", "masking", "paging", "clustering", "string", "embed"),
    *("ordering", "ping"),
}
_DOCSTRING_WITHOUT_VERB = re.compile(
    r"(?:What|Whether|Whoever|Who|Of|As|By|In|On|With|Where|When|Which|Why|How|Those|It|None|One"
    r"|All|Every|Each|Nothing|Per|See)\b"
)
NAMES: dict[str, str] = {
    "N1": "name the function with a verb: load_x, find_x, is_x (not one bare participle)",
    "N2": "name the function with a verb first (not a participle)",
    "N3": "name the element in the loop: for row in rows (not `one`)",
    "N4": "check_x raises, reject_x raises (not refuse_x)",
    "N5": "booleans are is_, has_, can_, should_",
    "N6": "get_x or load_x (not x_of)",
    "N7": "name what the value is, not how it came about",
    "N8": "name the module with a noun of the field",
    "N9": "begin the docstring of a function with a verb",
    "N10": "begin the docstring of a module with a verb or a noun phrase",
    "N11": f"split sentences of more than {SENTENCE_WORDS_MAX} words",
}
"""Rules for names and docstrings (Python), and for the length of sentences (documents)."""

# A string (docstrings too) or a comment; a string hides the `#` and quotes in it.
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\''
    r'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\#[^\n]*',
    re.DOTALL,
)


def describe(rule: str) -> str:
    """Return what to write instead."""
    return NAMES[rule] if rule in NAMES else f"write: {PROSE[rule].instead}"


@cache
def count_hits() -> dict[str, Counter[str]]:
    """Return the hits of each rule, by file. Files without hits are absent."""
    hits: dict[str, Counter[str]] = {}
    for name, text in texts():
        prose = _read_prose(name, text)
        if prose is not None and name not in RULES_THEMSELVES:
            hits[name] = count_prose(prose)
            if name.endswith(".md"):
                hits[name]["N11"] = sum(1 for _ in find_long_sentences(prose))
    for module in modules():
        if module.name not in RULES_THEMSELVES:
            hits.setdefault(module.name, Counter()).update(count_names(module))
    return {name: +counts for name, counts in sorted(hits.items()) if +counts}


def count_prose(text: str) -> Counter[str]:
    """Return the hits of the prose rules in the text."""
    return Counter(
        {rule: count for rule, of in PROSE.items() if (count := len(of.pattern.findall(text)))}
    )


def find_hits(rule: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield line and line's text of each hit of a prose rule in a whole file."""
    lines = text.splitlines()
    for match in PROSE[rule].pattern.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        yield line, lines[line - 1].strip() if line <= len(lines) else ""


def count_names(module: Module) -> Counter[str]:
    """Return the hits of the rules for names and docstrings in a Python file."""
    counts: Counter[str] = Counter()
    is_test = module.name.startswith("tests/")
    for function in module.functions:
        if not function.is_property:
            counts.update(_judge_function_name(function.name))
        if not is_test and _DOCSTRING_WITHOUT_VERB.match(function.docstring or ""):
            counts["N9"] += 1
    counts["N3"] = module.loop_variables.count("one")
    names = [name for _, name in module.bindings]
    functions = [function.name for function in module.functions]
    counts["N7"] = sum(names.count(name) - functions.count(name) for name in VAGUE_VALUES)
    stem = Path(module.name).stem
    if re.search(r"(?:ing|ed)\Z", stem) and not (
        stem in MODULE_NAMES_ALLOWED or stem.startswith("test_")
    ):
        counts["N8"] += 1
    if _DOCSTRING_WITHOUT_VERB.match(module.docstring or ""):
        counts["N10"] += 1
    return counts


def find_long_sentences(prose: str) -> Iterator[str]:
    """Yield the sentences of a document that have too many words. Tables are left out."""
    paragraphs = re.split(
        r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )",
        "\n".join(line for line in prose.splitlines() if not line.lstrip().startswith("|")),
    )
    for paragraph in paragraphs:
        for sentence in re.split(r"(?<=[.!?:])\s+", paragraph):
            if len(re.findall(r"\S*\w\S*", sentence)) > SENTENCE_WORDS_MAX:
                yield sentence


def load_baseline() -> dict[str, dict[str, int]]:
    """Return the hits that each file may still have, by rule."""
    loaded: dict[str, dict[str, int]] = json.loads(BASELINE.read_text(encoding="utf-8"))
    return loaded


def store_baseline(baseline: dict[str, dict[str, int]]) -> None:
    """Write the baseline, one line per file, so that branches merge line by line."""
    lines = [
        f"{json.dumps(name)}: {json.dumps(dict(sorted(counts.items(), key=_rule_order)))}"
        for name, counts in sorted(baseline.items())
        if counts
    ]
    BASELINE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def lower_baseline(
    baseline: dict[str, dict[str, int]], hits: dict[str, Counter[str]], moved: dict[str, str]
) -> dict[str, dict[str, int]]:
    """Return the baseline with counts that fell.

    Args:
        moved: new name of a file by its old name. The new file may have what the old one had. A
            file into which others were merged may have the sum of their counts.
    """
    allowed: dict[str, Counter[str]] = {}
    for old_name, old_counts in baseline.items():
        allowed.setdefault(moved.get(old_name, old_name), Counter()).update(old_counts)
    lowered = {
        name: {
            rule: min(count, hits.get(name, Counter())[rule])
            for rule, count in counts.items()
            if hits.get(name, Counter())[rule]
        }
        for name, counts in allowed.items()
    }
    return {name: counts for name, counts in lowered.items() if counts}


def _judge_function_name(name: str) -> Iterator[str]:
    first = _PARTICIPLE_FIRST.fullmatch(name)
    if name.strip("_") in _VERBS_IN_ED or (first and first[1] in _VERBS_IN_ED):
        return
    if _BARE_PARTICIPLE.fullmatch(name):
        yield "N1"
    elif first:
        yield "N2"
    if name.lstrip("_").startswith("refuse_"):
        yield "N4"
    if _NO_VERB_FIRST.fullmatch(name):
        yield "N5"
    if name.endswith("_of"):
        yield "N6"


def _read_prose(name: str, text: str) -> str | None:
    """Return what a reader reads of the file; None for files without prose."""
    if name.endswith(".py") and "migrations" not in name.split("/"):
        return "\n".join(match[0] for match in _STRING_OR_COMMENT.finditer(text))
    if name.startswith("templates/") and name.endswith(".html"):
        return text
    if name.endswith(".md"):
        return re.sub(r"^ *(```|~~~).*?^ *\1 *$", "", text, flags=re.MULTILINE | re.DOTALL)
    return None


def _rule_order(item: tuple[str, int]) -> tuple[str, int]:
    return item[0][0], int(item[0][1:])


def _main(arguments: list[str]) -> int:
    moved = dict(argument.partition("=")[::2] for argument in arguments)
    hits = count_hits()
    before = load_baseline() if BASELINE.exists() else {name: dict(of) for name, of in hits.items()}
    store_baseline(lower_baseline(before, hits, moved))
    totals = sum((Counter(counts) for counts in hits.values()), Counter())
    for rule, total in sorted(totals.items(), key=_rule_order):
        sys.stdout.write(f"{rule:>4} {total:6}  {describe(rule)}\n")
    sys.stdout.write(f"{sum(totals.values()):>11}  in {len(hits)} files\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
