"""The rights of PROTOCOL.md §2, as tables: who may do what, and what those hear who may not."""

import hashlib

import pytest

from leaseway_server.core.access import (
    ALL_RIGHTS,
    ANYONE,
    NO_RIGHTS,
    RIGHTS,
    Caller,
    Grant,
    Grants,
    Right,
    Token,
    administers,
    authorize,
    hash_token,
    rights,
)
from leaseway_server.core.errors import NotAllowed, NotFound, Refused, Unauthorized
from leaseway_server.core.members import is_name

NOW = 1_751_500_000_000
NOBODY: Grant = frozenset()
BAD = Caller(presented=True)

OPEN = Grants("open", "open", "open", "open")
CLOSED = Grants(frozenset({"alice"}), frozenset({"alice", "box"}), frozenset({"box"}), frozenset({"root"}))
MIXED = Grants("open", "users", frozenset({"box"}), NOBODY)
NAMED = Grants(frozenset({"alice"}), NOBODY, NOBODY, NOBODY)


def token(user: str, *, queues: set[str] | None = None, only: set[Right] | None = None, expires_at: int = 0) -> Token:
    return Token(
        id="1a2b3c4d5e6f",
        user=user,
        queues=None if queues is None else frozenset(queues),
        rights=None if only is None else frozenset(only),
        created_at=NOW - 1_000,
        expires_at=expires_at,
    )


def caller(user: str, *, queues: set[str] | None = None, only: set[Right] | None = None, expires_at: int = 0) -> Caller:
    return Caller(presented=True, token=token(user, queues=queues, only=only, expires_at=expires_at))


# ── What a caller has ──


@pytest.mark.protocol("2.1")
@pytest.mark.parametrize(
    ("grants", "held", "expected"),
    [
        # without a token: what is open
        (OPEN, None, ALL_RIGHTS),
        (CLOSED, None, NO_RIGHTS),
        (MIXED, None, {"post"}),
        (Grants(NOBODY, NOBODY, NOBODY, "open"), None, ALL_RIGHTS),
        # by name, and by being a user
        (CLOSED, token("alice"), {"post", "fetch"}),
        (CLOSED, token("box"), {"fetch", "work"}),
        (CLOSED, token("root"), ALL_RIGHTS),
        (CLOSED, token("eve"), NO_RIGHTS),
        (MIXED, token("eve"), {"post", "fetch"}),
        (MIXED, token("box"), {"post", "fetch", "work"}),
        (Grants(), token("eve"), {"post", "fetch", "work"}),
        (Grants(NOBODY, NOBODY, NOBODY, "users"), token("eve"), ALL_RIGHTS),
        # names are matched exactly
        (CLOSED, token("Alice"), NO_RIGHTS),
        (CLOSED, token("alic"), NO_RIGHTS),
        # narrowed to rights: `admin` includes the others, and a right that the user has not is not won
        (CLOSED, token("alice", only={"fetch"}), {"fetch"}),
        (CLOSED, token("alice", only={"work"}), NO_RIGHTS),
        (CLOSED, token("alice", only={"admin"}), {"post", "fetch"}),
        (CLOSED, token("root", only={"post", "work"}), {"post", "work"}),
        (CLOSED, token("root", only={"admin"}), ALL_RIGHTS),
        (CLOSED, token("root", only=set()), NO_RIGHTS),
        # narrowed to queues
        (CLOSED, token("root", queues={"resize"}), ALL_RIGHTS),
        (CLOSED, token("root", queues={"resized", "other"}), NO_RIGHTS),
        (CLOSED, token("root", queues=set()), NO_RIGHTS),
        (CLOSED, token("root", queues={"resize"}, only={"post"}), {"post"}),
        # however narrow, it has what is open to anyone
        (MIXED, token("box", queues={"other"}), {"post"}),
        (MIXED, token("box", only={"work"}), {"post", "work"}),
        (OPEN, token("eve", queues=set(), only=set()), ALL_RIGHTS),
        # narrowed to a time
        (CLOSED, token("root", expires_at=NOW + 1), ALL_RIGHTS),
        (CLOSED, token("root", expires_at=NOW), NO_RIGHTS),
        (OPEN, token("root", expires_at=NOW - 1), NO_RIGHTS),
    ],
)
def test_what_a_caller_may_do(grants: Grants, held: Token | None, expected: set[Right]) -> None:
    assert rights(grants, "resize", held, NOW) == expected


# ── What those hear who may not ──

QUEUES = {"resize": CLOSED, "mixed": MIXED, "named": NAMED}


@pytest.mark.parametrize(
    ("queue", "right", "who", "error"),
    [
        # 401: no valid token where one is needed
        ("resize", "post", ANYONE, Unauthorized),
        ("mixed", "fetch", ANYONE, Unauthorized),
        ("mixed", "admin", ANYONE, Unauthorized),
        ("resize", "post", BAD, Unauthorized),
        ("resize", "post", caller("alice", expires_at=NOW), Unauthorized),
        # … an invalid token also where none is needed
        ("mixed", "post", BAD, Unauthorized),
        ("mixed", "post", caller("alice", expires_at=NOW), Unauthorized),
        # … and for a queue that does not exist
        ("nope", "post", ANYONE, Unauthorized),
        ("nope", "post", BAD, Unauthorized),
        ("nope", "post", caller("alice", expires_at=NOW), Unauthorized),
        # 404: a valid token without any right on that queue, as if it did not exist
        ("nope", "post", caller("alice"), NotFound),
        ("resize", "post", caller("eve"), NotFound),
        ("named", "post", caller("box"), NotFound),
        ("resize", "post", caller("alice", queues={"mixed"}), NotFound),
        ("resize", "post", caller("alice", only={"work"}), NotFound),
        # 403: with another right
        ("resize", "post", caller("box"), NotAllowed),
        ("resize", "admin", caller("alice"), NotAllowed),
        ("resize", "fetch", caller("alice", only={"post"}), NotAllowed),
        ("mixed", "work", caller("eve"), NotAllowed),
        ("mixed", "work", caller("box", queues=set()), NotAllowed),
    ],
)
def test_what_is_refused_and_how(queue: str, right: Right, who: Caller, error: type[Refused]) -> None:
    with pytest.raises(error):
        authorize(QUEUES, queue, right, who, NOW)


@pytest.mark.parametrize(
    ("queue", "right", "who", "expected"),
    [
        ("resize", "post", caller("alice"), {"post", "fetch"}),
        ("resize", "work", caller("root"), ALL_RIGHTS),
        ("mixed", "post", ANYONE, {"post"}),
        ("mixed", "post", caller("eve", queues=set()), {"post"}),
        ("named", "post", caller("alice", queues={"named"}), {"post"}),
    ],
)
def test_who_may_is_told_all_that_it_may(queue: str, right: Right, who: Caller, expected: set[Right]) -> None:
    assert authorize(QUEUES, queue, right, who, NOW) == expected


@pytest.mark.parametrize("right", RIGHTS)
def test_a_server_with_open_queues_only_says_404_to_those_without_a_token(right: Right) -> None:
    with pytest.raises(NotFound):
        authorize({"demo": OPEN, "other": OPEN}, "nope", right, ANYONE, NOW)


def test_one_closed_queue_is_enough_for_401() -> None:
    with pytest.raises(Unauthorized):
        authorize({"demo": OPEN, "resize": CLOSED}, "nope", "post", ANYONE, NOW)


def test_where_only_posting_is_open_everywhere_a_token_is_still_asked_for_the_rest() -> None:
    queues = {"demo": OPEN, "mixed": MIXED}
    with pytest.raises(NotFound):
        authorize(queues, "nope", "post", ANYONE, NOW)
    with pytest.raises(Unauthorized):
        authorize(queues, "nope", "fetch", ANYONE, NOW)


def test_an_invalid_token_is_refused_on_an_open_server_too() -> None:
    with pytest.raises(Unauthorized):
        authorize({"demo": OPEN}, "demo", "post", BAD, NOW)
    with pytest.raises(Unauthorized):
        authorize({"demo": OPEN}, "nope", "post", BAD, NOW)


@pytest.mark.parametrize("who", [ANYONE, BAD, caller("eve"), caller("eve", expires_at=1)])
@pytest.mark.parametrize("right", RIGHTS)
def test_a_queue_that_one_may_not_see_answers_like_one_that_is_not_there(who: Caller, right: Right) -> None:
    def answer(queue: str) -> tuple[type[Refused], str]:
        with pytest.raises(Refused) as refused:
            authorize({"resize": CLOSED}, queue, right, who, NOW)
        return type(refused.value), str(refused.value)

    assert answer("resize") == answer("nope")


# ── Small things ──


@pytest.mark.protocol("2.3")
def test_a_caller_is_the_tokens_user() -> None:
    assert ANYONE.user == ""
    assert BAD.user == ""
    assert caller("alice").user == "alice"


@pytest.mark.protocol("2.6")
def test_only_the_sha_256_of_a_token_is_kept() -> None:
    assert hash_token("lw_secret") == hashlib.sha256(b"lw_secret").hexdigest()


@pytest.mark.parametrize("text", ["", "é", "\x00", "\ud800", "lw_secret\n"])
def test_any_text_can_be_asked_for(text: str) -> None:
    assert hash_token(text) != hash_token("lw_secret")
    assert len(hash_token(text)) == 64


@pytest.mark.protocol("0.18")
@pytest.mark.parametrize("name", ["alice", "box-1", "Zoë", "a b", "x" * 200])
def test_names_of_users(name: str) -> None:
    assert is_name(name)


@pytest.mark.protocol("0.18", "0.19")
@pytest.mark.parametrize("name", ["", "a\nb", "\x1b[31m", "\x85", "x" * 201, "\u2028", "a\u2029b", "\ud800"])
def test_what_is_no_name(name: str) -> None:
    assert not is_name(name)


@pytest.mark.parametrize(
    ("held", "does"),
    [
        (None, False),
        (token("alice"), False),
        (token("root"), True),
        (token("root", only={"admin", "post"}), True),
        (token("root", only={"post"}), False),
        (token("root", queues={"open"}), False),
    ],
)
def test_the_server_is_administered_by_its_administrators_tokens_that_are_for_all_queues(
    held: Token | None, does: bool
) -> None:
    assert administers(frozenset({"root"}), held) == does
