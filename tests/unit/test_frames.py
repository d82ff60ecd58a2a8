"""The shorter way for plain texts: it gives what the library would give, however the bytes arrive."""

from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from leaseway_server.web.frames import FrameCutter, text_frames

MOST = 70_000
Heard: TypeAlias = list[tuple[Opcode, bool, bytes]]

payloads = st.one_of(
    st.binary(max_size=20),
    st.sampled_from([b"", b"x" * 125, b"x" * 126, b"x" * 65_535, b"x" * 65_536, b"x" * MOST, b"x" * (MOST + 1)]),
)
proper = st.builds(
    lambda opcode, data, fin: Frame(opcode, data, fin).serialize(mask=True),
    st.sampled_from([Opcode.TEXT, Opcode.TEXT, Opcode.TEXT, Opcode.BINARY, Opcode.CONT]),
    payloads,
    st.sampled_from([True, True, True, False]),
)
control = st.sampled_from(
    [Frame(opcode, b"\x03\xe8").serialize(mask=True) for opcode in (Opcode.PING, Opcode.PONG, Opcode.CLOSE)]
)
odd = st.sampled_from(
    [
        Frame(Opcode.TEXT, b"{}").serialize(mask=False),
        b"\xc1\x82maskxx",  # A reserved bit.
        b"\x83\x80mask",  # An opcode that is none.
        b"\x81\xfe\x00\x02maskxx",  # A length that is longer than need be.
        b"\x81\xff" + b"\xff" * 8,  # A length of more than 63 bits.
    ]
)
said = st.lists(st.one_of(proper, proper, proper, control, odd), max_size=8).map(b"".join)
cuts = st.lists(st.integers(1, 40), max_size=40)


def open_library() -> ServerProtocol:
    library = ServerProtocol(max_size=MOST)
    library.receive_data(
        b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    (request,) = library.events_received()
    assert isinstance(request, Request)
    library.send_response(library.accept(request))
    library.data_to_send()
    assert library.state is OPEN
    return library


def take(library: ServerProtocol, heard: Heard) -> None:
    for event in library.events_received():
        assert isinstance(event, Frame)
        heard.append((event.opcode, event.fin, bytes(event.data)))


def pieces(data: bytes, sizes: list[int]) -> list[bytes]:
    """The bytes as a network may cut them: so many at first, the rest in one."""
    cut = []
    for size in sizes:
        cut.append(data[:size])
        data = data[size:]
    return [piece for piece in (*cut, data) if piece]


@given(said, cuts)
def test_what_is_heard_is_what_the_library_alone_would_hear(data: bytes, sizes: list[int]) -> None:
    alone, expected = open_library(), list[tuple[Opcode, bool, bytes]]()
    alone.receive_data(data)
    take(alone, expected)
    library, heard = open_library(), list[tuple[Opcode, bool, bytes]]()
    cutter = FrameCutter(library)
    cutter.plain = True
    for piece in pieces(data, sizes):
        for plain, part in cutter.cut(piece):
            if plain:
                heard.append((Opcode.TEXT, True, part))
            else:
                library.receive_data(part)
                take(library, heard)
    assert heard == expected
    assert library.state == alone.state
    assert library.data_to_send() == alone.data_to_send(), "pongs, and the close with its code"


def test_a_short_text_goes_past_the_library_and_a_long_one_does_not() -> None:
    library = open_library()
    cutter = FrameCutter(library)
    frame = Frame(Opcode.TEXT, b"{}").serialize(mask=True)
    assert list(cutter.cut(frame)) == [(False, frame)], "before it is asked for"
    cutter.plain = True
    assert list(cutter.cut(frame + frame)) == [(True, b"{}"), (True, b"{}")]
    large = Frame(Opcode.TEXT, b"x" * 65_536).serialize(mask=True)
    assert list(cutter.cut(large)) == [(False, large)]
    assert list(cutter.cut(large[:-1])) == [(False, large[:-1])]
    assert list(cutter.cut(large[-1:] + frame)) == [(False, large[-1:]), (True, b"{}")]


@given(st.lists(payloads, max_size=5))
def test_texts_are_written_as_the_library_writes_them(messages: list[bytes]) -> None:
    assert text_frames(messages) == b"".join(Frame(Opcode.TEXT, each).serialize(mask=False) for each in messages)
