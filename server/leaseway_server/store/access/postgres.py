"""Tokens and tickets in the database that the queues are in: what one server does there, all see.

Nothing here waits longer than `PATIENCE_SECONDS` for the database on behalf of a server: where that does not answer,
nobody is found, and who is inside is known as before. What a token allows is decided in `core/access.py`.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

import asyncpg

from leaseway_server.core.access import (
    MOST_TICKETS,
    Right,
    Token,
    hash_token,
    ticket_end,
    too_many_tickets,
)
from leaseway_server.core.errors import StoreAway, StoreError, StoreLost, StoreRefused
from leaseway_server.store.access.known import KnownTokens
from leaseway_server.store.access.rows import new_token, row_of, token_of
from leaseway_server.store.moved import refuse_moved
from leaseway_server.store.postgres.database import Database
from leaseway_server.store.queries import load_queries

T = TypeVar("T")

PATIENCE_SECONDS: Final = 3.0
_NEVER: Final = -1
_SQL: Final = load_queries("leaseway_server.store.access", "postgres.sql")


class PostgresAccess:
    """The `AccessStore` of a database, which it does not close."""

    source: Final = None
    """Another database would be another configuration."""

    def __init__(self, database: Database) -> None:
        self.current = True
        self._place = database.address.shown
        self._database = database
        self._seen = _NEVER
        self._tokens = KnownTokens()
        self._looking: asyncio.Task[bool] | None = None
        self._next_look: asyncio.Task[bool] | None = None
        self._working: set[asyncio.Task[Any]] = set()

    @classmethod
    async def open(cls, database: Database) -> Self:
        """Raises `StoreRefused` where the tokens were moved elsewhere, so that none is made or revoked here in vain."""
        async with database.transaction(readonly=True) as connection:
            refuse_moved(await connection.fetchval(_SQL["moved"]), f"the database {database.address}")
        return cls(database)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Notes what was used, unless the database is away."""
        with suppress(StoreError):
            await self._answered(self._note_used())
        for task in self._working:
            task.cancel()

    # ── What commands do ──

    async def add(
        self, user: str, queues: frozenset[str] | None, rights: frozenset[Right] | None, expires_at: int, now: int
    ) -> tuple[Token, str]:
        """A new token and its secret, which cannot be had again."""
        token, secret = new_token(user, queues, rights, expires_at, now)
        async with self._database.transaction() as connection:
            await connection.execute(_SQL["add"], hash_token(secret), *row_of(token))
            await connection.execute(_SQL["changed"])
        return token, secret

    async def all(self) -> list[Token]:
        """The tokens that were not revoked, oldest first."""
        async with self._database.transaction(readonly=True) as connection:
            return [token_of(row[1:]) for row in await connection.fetch(_SQL["tokens"])]

    async def revoke(self, token_id: str) -> bool:
        """Ends the token at once, and its tickets with it."""
        if not token_id.isascii():
            return False  # It may be no text at all, which the database would not take.
        async with self._database.transaction() as connection:
            revoked = bool(await connection.fetchval(_SQL["revoke"], token_id))
            if revoked:
                await connection.execute(_SQL["changed"])
        return revoked

    # ── What the server asks ──

    @property
    def known(self) -> Mapping[str, Token]:
        """The tokens by id, as of the last look; another mapping after each change."""
        return self._tokens.ids

    def by_id(self, token_id: str, now: int) -> Token | None:
        """The valid token of this id, as it was last known; for sockets that are open."""
        return self._tokens.by_id(token_id, now)

    async def find(self, secret: str, now: int) -> Token | None:
        """The valid token with this secret. It is looked up by its hash, so that time tells nothing about others.

        Raises `StoreError` where it is not known whether it is valid: while the database is away.
        """
        hashed = hash_token(secret)
        if not self.current or not self._tokens.has(hashed):
            await self.refresh()
        return self._tokens.find(hashed, now)

    async def issue(self, queue: str, secret: str, token: Token, now: int) -> int:
        """Keeps a new ticket, for all servers. Gives when it ends. Raises `LimitReached`."""
        return await self._answered(self._issue(queue, secret, token, now))

    async def redeem(self, queue: str, secret: str, now: int) -> Token | None:
        """The valid token whose ticket this is, once, on whatever server."""
        token = await self._answered(self._redeem(queue, secret, now))
        if token and token.id not in self.known:
            await self.refresh()
        return token and self._tokens.use(token, now)

    async def refresh(self) -> bool:
        """Reads the tokens again where they have changed; call it each second. Says whether they had.

        Of many who call it meanwhile, all get what one look finds that begins after they called.
        """
        if self._next_look is None:
            self._next_look = self._begin(self._look_after(self._looking))
        try:
            return await self._answered(self._next_look)
        except (asyncpg.PostgresError, StoreLost) as error:
            self.current = False
            raise StoreRefused(f"the tokens in the database {self._place} cannot be read: {error}") from error
        except StoreError:
            self.current = False
            raise

    async def _look_after(self, before: asyncio.Task[bool] | None) -> bool:
        if before is not None:
            await asyncio.wait([before])
        self._looking, self._next_look = self._next_look, None
        return await self._look()

    async def _look(self) -> bool:
        async with self._database.transaction(readonly=True) as connection:
            changes = await connection.fetchval(_SQL["changes"])
            rows = [] if changes == self._seen else await connection.fetch(_SQL["tokens"])
        self.current = True
        changed = bool(changes != self._seen)
        if changed:
            self._tokens.replace({row[0]: token_of(row[1:]) for row in rows})
            self._seen = changes
        if self._tokens.due:
            with suppress(StoreError):  # A standby can be read, too.
                await self._note_used()
        return changed

    async def _note_used(self) -> None:
        used = sorted(self._tokens.take_used().items())  # In one order on all servers: none waits in a circle.
        if used:
            async with self._database.transaction() as connection:
                await connection.execute(_SQL["used"], *map(list, zip(*used, strict=True)))

    async def _issue(self, queue: str, secret: str, token: Token, now: int) -> int:
        end = ticket_end(token, now)
        async with self._database.transaction() as connection:
            await connection.execute(_SQL["over"], now)
            await connection.execute(_SQL["lock_token"], token.id)  # One ticket of a token at a time: they are counted.
            row = (hash_token(secret), queue, token.id, now, end, MOST_TICKETS)
            issued = await connection.fetchval(_SQL["issue"], *row)
        if issued is None:
            raise too_many_tickets(MOST_TICKETS)
        return end

    async def _redeem(self, queue: str, secret: str, now: int) -> Token | None:
        async with self._database.transaction() as connection:
            row = await connection.fetchrow(_SQL["redeem"], hash_token(secret), queue, now)
        return None if row is None else token_of(row[1:])

    # ── Patience ──

    async def _answered(self, work: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T:
        """What comes of it. It goes on where it takes too long: a driver that is cut off may take long for that too.

        Raises `StoreAway` then.
        """
        task = work if isinstance(work, asyncio.Task) else self._begin(work)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await asyncio.shield(task)
        except TimeoutError:
            raise StoreAway(f"the database {self._place} does not answer within {PATIENCE_SECONDS:g} s") from None

    def _begin(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._working.discard(task)
        if not task.cancelled():
            task.exception()  # Whoever waited long enough has it; nobody else is to be told that nobody asked for it.
