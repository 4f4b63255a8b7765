"""The two spellings of whole numbers that an HFile has: Protocol Buffers' and Hadoop's.

Each reads at a place and gives the number and the place behind it. Raises ValueError where the
bytes end inside of the number, or it is longer than eight bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_SIGN: Final = 0x80
_BITS_MAX: Final = 63
_ONE_BYTE_MIN: Final = -112
_NEGATIVE: Final = -120
"""Heads down to here announce the bytes of a number that is not negative."""


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte, the lowest first. Return it and the position
    behind it.
    """
    number = shift = 0
    while True:
        byte = _byte(content, at)
        number |= (byte & ~_SIGN) << shift
        at, shift = at + 1, shift + 7
        if not byte & _SIGN:
            return number, at
        if shift > _BITS_MAX:
            raise ValueError("number is too long")


def read_hadoop_int(content: bytes, at: int) -> tuple[int, int]:
    """Read a number of one byte, from -112 to 127, or of a head with the count of bytes that
    follow, highest first. Return it and the position behind it.
    """
    head = _byte(content, at)
    head -= (head & _SIGN) << 1
    at += 1
    if head >= _ONE_BYTE_MIN:
        return head, at
    is_negative = head < _NEGATIVE
    length = (_NEGATIVE if is_negative else _ONE_BYTE_MIN) - head
    digits = content[at : at + length]
    if len(digits) < length:
        raise ValueError("number is cut off")
    number = int.from_bytes(digits, "big")
    return ~number if is_negative else number, at + length


def read_message(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, number or bytes) of each field of a Protocol Buffers message. HFiles contain
    no other kinds of fields.
    """
    at = 0
    while at < len(content):
        tag, at = read_varint(content, at)
        number, at = read_varint(content, at)
        match tag & 7:
            case 0:
                yield tag >> 3, number
            case 2:
                if at + number > len(content):
                    raise ValueError("field is cut off")
                yield tag >> 3, content[at : at + number]
                at += number
            case kind:
                raise ValueError(f"field is of the unknown kind {kind}")


def _byte(content: bytes, at: int) -> int:
    if at >= len(content):
        raise ValueError("number is cut off")
    return content[at]
