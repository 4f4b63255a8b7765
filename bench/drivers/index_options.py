"""By which index a table is written, under the names that both engines take."""

from __future__ import annotations

from typing import Final

BUCKET: Final = "BUCKET"


def index_options(index: str, buckets: int) -> dict[str, str]:
    """Only the bucket index has `buckets`."""
    options = {"hoodie.index.type": index}
    return options | ({"hoodie.bucket.index.num.buckets": str(buckets)} if index == BUCKET else {})
