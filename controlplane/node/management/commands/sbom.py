"""`manage.py sbom`: what a node installs, as a CycloneDX document, for whoever matches it with
advisories.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from django.core.management.base import BaseCommand

LOCK: Final = Path(__file__).resolve().parents[4] / "requirements.lock"
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Command(BaseCommand):
    help = "Print what a node installs, by requirements.lock, as a CycloneDX document (JSON)."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(document(LOCK.read_text()), indent=1))


def document(lock: str) -> dict[str, Any]:
    """CycloneDX 1.5: each package with its version and the hashes of its files."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "sluice"}},
        "components": [
            {
                "type": "library",
                "name": name,
                "version": version,
                "bom-ref": f"pkg:pypi/{name}@{version}",
                "purl": f"pkg:pypi/{name}@{version}",
                "externalReferences": [
                    {
                        "type": "distribution",
                        "url": f"pkg:pypi/{name}@{version}",
                        "hashes": [{"alg": "SHA-256", "content": digest} for digest in digests],
                    }
                ],
            }
            for (name, version), digests in pinned(lock).items()
        ],
    }


def pinned(lock: str) -> dict[tuple[str, str], list[str]]:
    """(Name in its normal spelling, version) -> the hashes of the files that may be installed."""
    return {
        (re.sub(r"[-_.]+", "-", match[1]).lower(), match[2]): _HASH.findall(entry)
        for entry in re.split(r"\n(?=\S)", lock)
        if (match := _PIN.match(entry))
    }
