"""The store's verbs for caps, for links in messages, and for what is kept long enough."""

from collections.abc import Sequence
from dataclasses import fields
from secrets import token_hex
from typing import Final

from leaseway_notify.settings import HOUR
from leaseway_notify.stores.base import Leftover, Token
from leaseway_notify.stores.database import Session, Verbs
from leaseway_notify.stores.planning import present
from leaseway_notify.stores.rows import values_of

_OF_NOTIFICATIONS: Final = frozenset[Leftover]({"dead", "settled", "inbox"})


class Caps(Verbs):
    """`CapStore`."""

    async def take_place(self, key: str, hour: int, most: int, delivery_id: str) -> bool:
        """Whether this delivery has one of the places of this hour."""
        return await self._database.do(lambda session: _take_place(session, key, hour, most, delivery_id))


class Tokens(Verbs):
    """`TokenStore`."""

    async def add_tokens(self, tokens: Sequence[Token]) -> None:
        """Keeps them; those that are there already stay, and those of who has been forgotten go."""
        in_turn = sorted(tokens, key=lambda token: token.token)

        async def work(session: Session) -> None:
            known = await present(session, {token.recipient for token in in_turn})
            await session.run_many("insert_token", [values_of(one) for one in in_turn if one.recipient in known])

        await self._database.do(work)

    async def secret(self) -> bytes:
        """What tokens are made with."""

        async def work(session: Session) -> bytes:
            await session.run("keep_secret", token_hex())
            (row,) = await session.rows("secret")
            return bytes.fromhex(row["value"])

        return await self._database.do(work)

    async def use_token(self, token: str, now: int) -> Token | None:
        """The token, once more used."""

        async def work(session: Session) -> Token | None:
            rows = await session.rows("use_token", token, now)
            return Token(**{of.name: rows[0][of.name] for of in fields(Token)}) if rows else None

        return await self._database.do(work)


class Housekeeping(Verbs):
    """`HousekeepingStore`."""

    async def drop(self, what: Leftover, before: int, limit: int) -> int:
        """Drops at most so many of those that ended before then."""
        if what in _OF_NOTIFICATIONS:
            return await self._database.do(lambda session: _drop_with_notifications(session, what, before, limit))
        until = before // HOUR if what == "places" else before
        return await self._database.do(lambda session: session.run(f"drop_{what}", until, limit))


async def _take_place(session: Session, key: str, hour: int, most: int, delivery_id: str) -> bool:
    taken = {row["slot"]: row["delivery_id"] for row in await session.rows("places", key, hour)}
    if delivery_id in taken.values():
        return True
    for slot in range(most):
        # Another one may be quicker: then the next place is tried.
        if slot not in taken and await session.run("take_place", key, hour, slot, delivery_id):
            return True
    return False


async def _drop_with_notifications(session: Session, what: Leftover, before: int, limit: int) -> int:
    dropped = [row["notification_id"] for row in await session.rows(f"drop_{what}", before, limit)]
    ids = sorted(set(dropped))
    await session.rows("lock_notifications", ids)
    await session.run("drop_notifications", ids)
    return len(dropped)
