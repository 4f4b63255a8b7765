"""`sbom`: the packages of a node as a CycloneDX document, for scanners of advisories.

In a checkout they are those of `requirements.lock`, otherwise those of the environment.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from django.core.management.base import BaseCommand
from sluice import __version__

from controlplane.program import list_installed
from workers.installation import IS_CHECKOUT, ROOT

LOCK: Final = ROOT / "requirements.lock"
Components = dict[tuple[str, str], list[str]]
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", re.MULTILINE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")


class Command(BaseCommand):
    help = "Print the packages of a node as a CycloneDX document (JSON)."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(json.dumps(document(load_components()), indent=1))


def load_components(*, is_checkout: bool = IS_CHECKOUT) -> Components:
    """Return the packages of `requirements.lock` with their hashes, or those of the environment."""
    if is_checkout:
        return pinned(LOCK.read_text())
    return {(name, version): [] for name, version in sorted(list_installed().items())}


def document(components: Components) -> dict[str, Any]:
    """Return CycloneDX 1.5: each package with its version and the hashes of its files."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": "sluice", "version": __version__}
        },
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
            for (name, version), digests in components.items()
        ],
    }


def pinned(lock: str) -> Components:
    """Return the hashes of the files that may be installed, by (normal name, version)."""
    return {
        (re.sub(r"[-_.]+", "-", match[1]).lower(), match[2]): _HASH.findall(entry)
        for entry in re.split(r"\n(?=\S)", lock)
        if (match := _PIN.match(entry))
    }
