"""A session without a socket: a test speaks to it as a client does, and settles what it asks as the engine does."""

from typing import Any, Literal

import orjson

from leaseway_server.core.commands import Command, Outcome
from leaseway_server.core.conversation import Conversation, Exchange
from support.wire import check_client, check_server

Message = dict[str, Any]


class Talk:
    """Both ends of one session. What either side says is held against the wire schemas."""

    def __init__(self, session: Conversation, socket: Literal["work", "monitor"]) -> None:
        self.session = session
        self._socket = socket

    def says(self, message: Any) -> list[Exchange]:
        """A message of the client's; gives what is submitted for it."""
        check_client(self._socket, message)
        return self.says_anything(message)

    def says_anything(self, message: Any) -> list[Exchange]:
        """The same, for what is no message of the protocol."""
        return self.session.receive(orjson.dumps(message))

    def asks(self, message: Any) -> Exchange:
        """A message of the client's that is one command."""
        (exchange,) = self.says(message)
        return exchange

    def commands(self, message: Any) -> list[Command]:
        """What is asked of the engine for a message."""
        commands = [exchange.command for exchange in self.says(message)]
        return [command for command in commands if command is not None]

    def settle(self, exchange: Exchange, *outcomes: Outcome) -> None:
        """The engine's answers to a command."""
        for outcome in outcomes:
            self.session.settle(exchange, outcome)

    def hears(self) -> list[Message]:
        """What the client is sent now, a message a frame."""
        return self.read(self.session.take())

    def read(self, frames: list[bytes]) -> list[Message]:
        """The frames as messages."""
        messages = [orjson.loads(frame) for frame in frames]
        for message in messages:
            check_server(self._socket, message)
        return messages

    def refused(self, message: Any) -> tuple[str, str, str | None]:
        """The client says what is refused; gives the error's code, its first path, and the item it names."""
        assert self.says_anything(message) == []
        (error,) = self.hears()
        assert error["type"] == "error"
        assert all(len(each["message"]) <= 200 for each in error["errors"])
        return error["code"], error["errors"][0]["path"], error["id"]
