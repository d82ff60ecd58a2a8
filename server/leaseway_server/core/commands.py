"""What is asked of a queue's engine, and what it answers. Values only.

A command takes effect in one turn, wholly or not at all. Its outcome is given after that turn's commit, never before.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from leaseway_server.core.attempts import Attempt
from leaseway_server.core.criteria import Criteria
from leaseway_server.core.errors import Refused
from leaseway_server.core.events import Event
from leaseway_server.core.jsontext import Json
from leaseway_server.core.lifecycle import Reason
from leaseway_server.core.model import Item, NewItem

BEYOND: Final = 2**63 - 1
"""Above every row number."""

Guard: TypeAlias = Callable[[Item], str]
"""Why a change is not for this item, as it stands; "" where it is."""


@dataclass(frozen=True, slots=True)
class Post:
    """A new item. Outcome: `Posted`."""

    new: NewItem


@dataclass(frozen=True, slots=True)
class PostAll:
    """New items, all of them or none. Outcome: `PostedAll`; what is refused is named by its index."""

    news: tuple[NewItem, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """An item that has ended goes, with all that belongs to it. Outcome: `Changed`, with the item as it was.

    `guard` is as in `Change`.
    """

    id: str
    guard: Guard | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One event on one item: a report, a cancel. Outcome: `Changed`.

    `guard` is asked of the item as it stands why this caller may not ("" where it may): with `unknown` the item is not
    there for it at all.
    """

    id: str
    event: Event
    guard: Guard | None = None


@dataclass(slots=True, eq=False)
class Ask:
    """A claim: `count` items that meet `criteria`. It waits until `until` (ms since the epoch; 0 does not wait, unless
    for what other servers have in hand).

    Outcomes: a `Handed` for each item, and one `Empty` where fewer than `count` came.
    """

    holder: int
    user: str
    worker: str
    criteria: Criteria
    count: int = 1
    wait_ms: int = 0
    given: Json = None
    """The criteria as the claim gave them."""
    until: int = 0
    """Set by the turn that takes it up."""


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Takes back the claims of a socket, or this one of them; each is ended by `Empty`. Outcome: `Done`.

    What was committed to a claim before stays with it.
    """

    holder: int
    ask: Ask | None = None


@dataclass(frozen=True, slots=True)
class ResumeLeases:
    """A worker is back. `leases` are (id, attempts). Outcome: `Resumed`."""

    holder: int
    user: str
    worker: str
    leases: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Drop:
    """This socket is gone: its claims end, what it holds is requeued. Outcome: `Done`."""

    holder: int


@dataclass(frozen=True, slots=True)
class Read:
    """The views of these items, and with `bodies` the items as posted, with `attempts` those that ended.

    `patient`: who asks watches them, and waits as long as its socket lasts where they cannot be read at the moment.
    Outcome: `Found`.
    """

    ids: tuple[str, ...]
    bodies: bool = False
    attempts: bool = False
    patient: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """From now on claims find nothing, those that wait stay and time out; or not `on`, they find again.

    Outcome: `Paused`.
    """

    on: bool


@dataclass(frozen=True, slots=True)
class ReadFollowed:
    """The views of what this poster has open, and of its ends that nobody fetched yet; of "" all that is open.

    Newest first, those of row numbers below `before`. Who asks is patient, as in `Read`. Outcome: `Followed`.
    """

    poster: str
    before: int = BEYOND


@dataclass(frozen=True, slots=True)
class Oldest:
    """Since when the ready item waits that waits longest. Outcome: `WaitsSince`."""


Command: TypeAlias = (
    Post | PostAll | Delete | Change | Ask | Withdraw | ResumeLeases | Drop | Read | ReadFollowed | Oldest | Pause
)


@dataclass(slots=True)
class Posted:
    """The item as committed: `processing` where a waiting claim took it. It changes until then, and never after.

    `duplicate`: it was there before, under this key.
    """

    item: Item
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class PostedAll:
    """Each post's answer, in the order posted."""

    items: tuple[Posted, ...]


@dataclass(frozen=True, slots=True)
class Changed:
    """`item` is as it stands after the event, or None where the id is unknown; `reason` says why it was refused."""

    accepted: bool
    item: Item | None
    reason: Reason | str = ""
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class Handed:
    """An item for a claim, with its `body`."""

    item: Item


@dataclass(frozen=True, slots=True)
class Empty:
    """The claim is over."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Each lease's answer, in the order asked."""

    leases: tuple[Changed, ...]


@dataclass(slots=True)
class Found:
    """The items that exist, by id; finished ones with their `result`. `now` is the turn's time.

    `left` are the ids that were too much for one turn: read them again.
    """

    items: dict[str, Item] = field(default_factory=dict)
    now: int = 0
    left: tuple[str, ...] = ()
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    """Where they were asked for, by the item's id: the newest, as many as one turn reads, oldest first."""


@dataclass(frozen=True, slots=True)
class Paused:
    """The queue is as it was asked to be; `changed` where it was not so before."""

    changed: bool


@dataclass(slots=True)
class Followed:
    """Some of the items that were asked for, finished ones with their `result`. `now` is the turn's time.

    `before` says where to go on; 0 where these were the last.
    """

    items: list[Item] = field(default_factory=list)
    now: int = 0
    before: int = 0


@dataclass(slots=True)
class WaitsSince:
    """When the item came due that is ready longest, ms since the epoch; 0 where none is ready. `now` as in `Found`."""

    at: int = 0
    now: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """It was done; there is nothing to say."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The turn could not do it; nothing of it was kept."""

    error: Refused


Outcome: TypeAlias = (
    Posted | PostedAll | Changed | Handed | Empty | Resumed | Found | Followed | WaitsSince | Paused | Done | Failed
)

Answer: TypeAlias = Callable[[Outcome], None]
"""Who is told an outcome; called once the turn is committed, and must not wait."""
