"""Frames of a WebSocket (RFC 6455 §5.2), as far as a shorter way than the library's is worth it: short text frames.

Most of what clients say comes in one piece, in frames of less than 64 KiB. Those are unmasked here; every other byte is
left to the library, which also refuses what is not allowed. Nothing is decided here but where a frame ends.
"""

from collections.abc import Iterator
from typing import Final

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # In C where the platform has it.
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

_FINAL_TEXT: Final = 0x81
_PING: Final = 0x89
_MASKED: Final = 0x80
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127
_EIGHT_BYTE_SIZES: Final = 1 << 16
"""From here on a size takes so many bytes."""


class FrameCutter:
    """Cuts what one client sends, from the end of its handshake on, into plain texts and what the library must read."""

    def __init__(self, library: ServerProtocol) -> None:
        self._library = library
        self._head = b""
        self._theirs = 0
        self.plain = False
        """Whether plain texts are wanted; else the library gets everything."""

    def cut(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """In the order sent: (True, the text) of a plain frame, or (False, bytes) for the library.

        The library must have read its bytes before the next step: it knows whether a message is under way.
        """
        if self._head:
            self._learn_size(data)
        at, end = min(self._theirs, len(data)), len(data)
        if at:
            self._theirs -= at
            yield False, data[:at]
        longest = self._longest_plain()
        while at < end:
            payload, stop = _bounds(data, at)
            if not stop:
                self._head = data[at:]
                yield False, self._head
                return
            plain = data[at] == _FINAL_TEXT and _MASKED <= data[at + 1] < _MASKED + _EIGHT_BYTES
            if plain and stop <= end and stop - payload <= longest:
                yield True, apply_mask(data[payload:stop], data[payload - 4 : payload])
            else:
                self._theirs = max(0, stop - end)
                yield False, data[at:stop]
                longest = self._longest_plain()
            at = stop

    def _learn_size(self, data: bytes) -> None:
        """The library has the first bytes of a header already; now that more come, is it known where its frame ends?"""
        head, self._head = self._head, b""
        _, stop = _bounds(head + data, 0)
        if stop:
            self._theirs = stop - len(head)
        else:
            self._head = head + data
            self._theirs = len(data)

    def _longest_plain(self) -> int:
        """So many bytes a text may have by now for the short way; less than 0 where none may take it."""
        library = self._library
        # With a current size, a message is under way, of which fragments came.
        if not self.plain or library.state is not OPEN or library.current_size is not None:
            return -1
        return _EIGHT_BYTE_SIZES if library.max_message_size is None else library.max_message_size


def text_frames(messages: list[bytes]) -> bytes:
    """The messages, each as one text frame of a server: final, not masked."""
    pieces = []
    for message in messages:
        size = len(message)
        if size < _TWO_BYTES:
            pieces.append(bytes((_FINAL_TEXT, size)))
        elif size < 1 << 16:
            pieces.append(b"\x81\x7e" + size.to_bytes(2, "big"))
        else:
            pieces.append(b"\x81\x7f" + size.to_bytes(8, "big"))
        pieces.append(message)
    return b"".join(pieces)


def ping_frame(payload: bytes) -> bytes:
    """A server's ping with this payload, of less than 126 bytes."""
    return bytes((_PING, len(payload))) + payload


def _bounds(data: bytes, at: int) -> tuple[int, int]:
    """Where the payload of the frame at `at` begins and ends; (0, 0) where its header is not all there."""
    if len(data) < at + 2:
        return 0, 0
    length = data[at + 1]
    payload = at + (6 if length & _MASKED else 2)
    size = length & ~_MASKED
    if size >= _TWO_BYTES:
        bytes_of_size = 2 if size == _TWO_BYTES else 8
        payload += bytes_of_size
        size = int.from_bytes(data[at + 2 : at + 2 + bytes_of_size], "big")
    return (payload, payload + size) if len(data) >= payload else (0, 0)
