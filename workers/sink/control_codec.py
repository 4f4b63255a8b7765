"""Codec of the control topic's records: signed messages, large ones in chunks.

A record is one line of header and a part of the message's JSON:
`sluice1 <HMAC-SHA256> <message id> <index> <count>`. The signature covers everything after it. The
message id is the digest of the content. So chunks of two messages cannot be mixed, and a repeated
message fills the gaps of the first. A process without the secret can neither start, end nor commit
anything. Invalid records are ignored, and counted by cause.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.errors import InvalidInput
from workers.sink.messages import Ignored, Message, NotAMessage, from_json, to_json

CHUNK_BYTES_MAX = 512 << 10
MESSAGE_BYTES_MAX = 64 << 20
SECRET_BYTES_MIN = 16
_HEADER_BYTES_MAX = 160
_PARTIAL_MAX = 64
_FRAME = re.compile(
    rb"sluice1 (?P<mac>[0-9a-f]{64}) "
    rb"(?P<signed>(?P<id>[0-9a-f]{32}) (?P<index>[0-9]{1,5}) (?P<count>[0-9]{1,5})\n(?P<part>.*))",
    re.DOTALL,
)


class ControlCodec:
    """Encoder and decoder of messages for one sink of one table. Only one thread may decode."""

    def __init__(
        self,
        sink_id: str,
        table_id: str,
        secret: bytes,
        *,
        chunk_bytes_max: int = CHUNK_BYTES_MAX,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
    ) -> None:
        """Raises InvalidInput for a secret that is too short."""
        if len(secret) < SECRET_BYTES_MIN:
            raise InvalidInput(
                "the secret of the control topic is too short", bytes_least=SECRET_BYTES_MIN
            )
        self._sink_id, self._table_id = sink_id, table_id
        self._secret = secret
        self._chunk_bytes_max, self._message_bytes_max = chunk_bytes_max, message_bytes_max
        self._partial = _PartialMessages(message_bytes_max)
        self._ignored: Counter[Ignored] = Counter()

    @property
    def ignored(self) -> Mapping[Ignored, int]:
        """Number of ignored records by cause, as a copy."""
        return dict(self._ignored)

    def encode(self, message: Message) -> tuple[bytes, ...]:
        """Return the records of the message. Their order does not matter.

        Raises InvalidInput for a message that is too large for the control topic.
        """
        content = to_json(message, sink_id=self._sink_id, table_id=self._table_id)
        if len(content) > self._message_bytes_max:
            raise InvalidInput(
                "message too large for the control topic",
                bytes=len(content),
                bytes_max=self._message_bytes_max,
            )
        size = self._chunk_bytes_max
        parts = [content[at : at + size] for at in range(0, len(content), size)]
        message_id = _message_id(content)
        return tuple(
            self._sign(b"%s %d %d\n%s" % (message_id, index, len(parts), part))
            for index, part in enumerate(parts)
        )

    def decode(self, record: bytes) -> Message | None:
        """Return the message that this record completes, or None."""
        decoded = self._decode_record(record)
        if isinstance(decoded, NotAMessage):
            self._ignored[decoded.cause] += 1
            return None
        return decoded

    def _decode_record(self, record: bytes) -> Message | NotAMessage | None:
        # No sender splits finer than its own bound, and bounds may differ between versions.
        if len(record) > max(self._chunk_bytes_max, CHUNK_BYTES_MAX) + _HEADER_BYTES_MAX:
            return NotAMessage(Ignored.SIZE)
        frame = _FRAME.fullmatch(record)
        if frame is None:
            return NotAMessage(Ignored.MALFORMED)
        if not hmac.compare_digest(self._mac(frame["signed"]), frame["mac"]):
            return NotAMessage(Ignored.SIGNATURE)
        content = self._join_content(frame)
        if content is None or isinstance(content, NotAMessage):
            return content
        if _message_id(content) != frame["id"]:
            return NotAMessage(Ignored.MALFORMED)
        return from_json(content, sink_id=self._sink_id, table_id=self._table_id)

    def _join_content(self, frame: re.Match[bytes]) -> bytes | NotAMessage | None:
        index, count = int(frame["index"]), int(frame["count"])
        if index >= count:
            return NotAMessage(Ignored.MALFORMED)
        if count == 1:
            return frame["part"]
        return self._partial.add_part(frame["id"], index, count, frame["part"], self._ignored)

    def _sign(self, content: bytes) -> bytes:
        return b"sluice1 %s %s" % (self._mac(content), content)

    def _mac(self, content: bytes) -> bytes:
        return hmac.new(self._secret, content, hashlib.sha256).hexdigest().encode()


@dataclass(slots=True)
class _PartialMessages:
    """Incomplete messages. The oldest are dropped to bound the memory."""

    bytes_max: int
    _by_id: dict[tuple[bytes, int], dict[int, bytes]] = field(default_factory=dict)
    _bytes: int = 0

    def add_part(
        self, message_id: bytes, index: int, count: int, part: bytes, ignored: Counter[Ignored]
    ) -> bytes | None:
        key = (message_id, count)
        parts = self._by_id.setdefault(key, {})
        if index in parts:
            ignored[Ignored.CHUNK] += 1
            return None
        parts[index] = part
        self._bytes += len(part)
        if len(parts) == count:
            self._forget(key)
            return b"".join(parts[at] for at in range(count))
        while len(self._by_id) > _PARTIAL_MAX or self._bytes > self.bytes_max:
            ignored[Ignored.CHUNK] += len(self._forget(next(iter(self._by_id))))
        return None

    def _forget(self, key: tuple[bytes, int]) -> dict[int, bytes]:
        parts = self._by_id.pop(key)
        self._bytes -= sum(map(len, parts.values()))
        return parts


def _message_id(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest()[:32].encode()
