"""What one may not see is answered as what does not exist: the same status, headers and body, byte for byte (§2).

Also: paths that are no queue's, paths and methods that the protocol has not, and what the server itself serves.
"""

from pathlib import Path
from typing import Final

import pytest

from support.matrix import ACCESS, LIMITS, NONE, PUBLIC, Caller, Closed, rows, stage, talk
from support.raw import raw_socket

BODY: Final = {"item": 1, "id": NONE, "value": 1, "error": {"message": "no"}}
REQUESTS: Final = [
    ("POST", "/items"),
    ("GET", f"/items/{NONE}"),
    ("GET", f"/items/{NONE}?waitMs=1"),
    ("HEAD", f"/items/{NONE}"),
    ("GET", f"/items/{NONE}/item"),
    ("POST", f"/items/{NONE}/cancel"),
    ("POST", f"/items/{NONE}/retry"),
    ("PATCH", f"/items/{NONE}"),
    ("DELETE", f"/items/{NONE}"),
    *(("POST", f"/{verb}") for verb in ("claim", "progress", "result", "fail", "release", "renew")),
    ("POST", "/tickets"),
    *(("GET", path) for path in ("", "/rates", "/schemas/item.json", f"/items/{NONE}/attempts")),
    *(("POST", f"/{verb}") for verb in ("pause", "unpause")),
    ("GET", f"/items/{NONE}/why"),
    ("GET", "/items"),
    ("GET", "/items?state=dead&limit=x"),
    ("POST", "/bulk"),
]


@pytest.mark.protocol("2.9")
async def test_a_queue_that_one_may_not_see_is_as_one_that_does_not_exist(tmp_path: Path) -> None:
    async with stage(tmp_path, ACCESS) as on:
        for kind, queue in (
            ("nobody", "members"),
            ("nobody", "lists"),
            ("nobody", "own"),
            ("invalid", "members"),
            ("invalid", "public"),
            ("alice:elsewhere", "members"),
            ("alice:elsewhere", "own"),
            ("alice", "lists"),
            ("poster:fetch", "lists"),
        ):
            for name, caller in on.cast.callers[kind].items():
                for method, path in REQUESTS:
                    body = BODY if method == "POST" else None
                    there = await on.line.ask(method, f"/{queue}{path}", caller, body)
                    absent = await on.line.ask(method, f"/nowhere{path}", caller, body)
                    assert there == absent, (kind, name, queue, method, path)
                    assert there.status in (401, 404)
                for path in ("/monitor", "/work"):
                    closed = await talk(on.server.ws_url, f"/{queue}{path}", caller, [{"hello": {}}])
                    assert isinstance(closed, Closed)
                    assert closed == await talk(on.server.ws_url, f"/nowhere{path}", caller, [{"hello": {}}])


async def test_one_invalid_token_is_as_any_other(tmp_path: Path) -> None:
    """Revoked, expired, never given or misspelt: the answers do not tell which."""
    async with stage(tmp_path, ACCESS) as on:
        invalid = on.cast.callers["invalid"].values()
        for method, path in REQUESTS:
            body = BODY if method == "POST" else None
            answers = {await on.line.ask(method, f"/members{path}", caller, body) for caller in invalid}
            assert len(answers) == 1, (method, path, answers)
        assert len({await talk(on.server.ws_url, "/members/work", caller, []) for caller in invalid}) == 1


HIDDEN: Final = [
    ("own", "alice", [("GET", ""), ("GET", "?waitMs=60000"), ("HEAD", ""), ("GET", "/item"), ("POST", "/cancel")]),
    ("own", "alice", [("GET", "/attempts"), ("GET", "/why")]),
    (
        "own",
        "worker:fetch",
        [("GET", ""), ("GET", "/item"), ("GET", "/attempts"), ("GET", "/why"), ("POST", "/cancel")],
    ),
    ("own", "alice:post", [("GET", ""), ("POST", "/cancel")]),
    ("members", "alice:post", [("GET", ""), ("POST", "/cancel")]),
    ("members", "alice:work", [("GET", ""), ("POST", "/cancel")]),
    ("lists", "poster", [("GET", ""), ("POST", "/cancel")]),
]


@pytest.mark.protocol("2.22")
async def test_an_item_that_one_may_not_see_is_as_one_that_does_not_exist(tmp_path: Path) -> None:
    wrong = []
    async with stage(tmp_path, ACCESS) as on:
        for queue, kind, requests in HIDDEN:
            hidden = await on.item(queue, "bob")
            for caller in on.cast.callers[kind].values():
                for method, path in requests:
                    there = await on.line.ask(method, f"/{queue}/items/{hidden}{path}", caller)
                    absent = await on.line.ask(method, f"/{queue}/items/{NONE}{path}", caller)
                    if there != absent:
                        wrong.append(f"{queue}: {kind}: {method} …{path}: {there}, and else {absent}")
            assert await on.rev(queue, hidden) == 1
    assert not wrong, "\n".join(wrong)


async def test_a_monitor_is_told_nothing_of_what_others_posted(tmp_path: Path) -> None:
    """Neither on subscribing nor when it changes; its own item, changed after it, is told."""
    async with stage(tmp_path, ACCESS) as on:
        mine, hidden = await on.item("own", "alice"), await on.item("own", "bob")
        root = on.cast.callers["root"][""]
        alice = on.cast.callers["alice"]["in the URL"]
        for subscribed in ([hidden, mine], [mine], [NONE, mine]):
            heard = await talk(on.server.ws_url, "/own/monitor", alice, [{"subscribe": subscribed, "ref": 1}])
            assert isinstance(heard, list)
            assert [message["id"] for message in heard] == [mine]
        async with raw_socket(on.server.ws_url + alice.at("/own/monitor")) as monitor:
            monitor.say({"subscribe": [hidden, mine]})
            assert (await monitor.hear())["id"] == mine
            for item_id in (hidden, mine):
                assert (await on.line.ask("POST", f"/own/items/{item_id}/cancel", root)).status == 200
            assert (await monitor.hear())["id"] == mine


# ── Paths ──

# Who asks without a token, alice with hers. 401 and 404 are of a queue that does not exist, 404 and 404 of a path that
# the server has not: that is the same for everybody.
PATHS: Final = """
path                                                nobody alice
POST:/%00/items                                     401    404
POST:/members%00/items                              401    404
POST:/members%0a/items                              401    404
POST:/members%20/items                              401    404
POST:/members;x=1/items                             401    404
POST:/MEMBERS/items                                 401    404
POST:/_members/items                                401    404
POST:/-members/items                                401    404
POST:/../items                                      401    404
POST:/%2e%2e/items                                  401    404
POST:/%ff/items                                     401    404
POST:/m%c3%a9mbers/items                            401    404
POST:/%25/items                                     401    404
POST:/{long}/items                                  401    404
GET:/members%2fitems%2f0123456789abcdef             401    404
POST:/a%2fb/items                                   404    404
POST:/members/../lists/items                        404    404
POST:/members/items/                                404    404
POST:/members//items                                404    404
POST://items                                        404    404
GET:/members/items/%00                              401    404
GET:/members/items/..                               401    404
GET:/members/items/%2e%2e                           401    404
GET:/members/items/{long}                           401    404
GET:/members/items/0123456789ABCDEF                 401    404
GET:/members/items/%ff                              401    404
GET:/members/items/0123456789abcdef%0a              401    404
GET:/members/items/0123456789abcdef'--              401    404
GET:/members/items/..%2f..%2fitems                  404    404
GET:/members/items/0123456789abcdef/                404    404
GET:/members/items/0123456789abcdef/item/           404    404
GET:/members/else                                   404    404
GET:/nowhere                                        401    404
GET:/members%0a                                     404    404
GET:/MEMBERS                                        404    404
GET:/members/                                       404    404
GET:/members/schemas/meta.json                      404    404
GET:/members/schemas/item                           404    404
GET:/members/schemas/..%2fitem.json                 404    404
GET:/members/items/0123456789abcdef/attempts/       404    404
GET:/_queues/                                       404    404
GET:/_Queues                                        404    404
GET:/_metrics/                                      404    404
GET:/_access.db                                     404    404
GET:/_pages/../index.html                           404    404
GET:/_pages/..%2f__init__.py                        404    404
GET:/_pages/__init__.py                             404    404
GET:/_pages/dashboard                               404    404
GET:/_pages/dashboard/                              404    404
GET:/_pages/dashboard/../__init__.py                404    404
GET:/_pages//dashboard/index.html                   404    404
GET:/_client                                        404    404
GET:/_client/                                       404    404
GET:/_client/README.md                              404    404
GET:/_client/package.json                           404    404
GET:/_client/__init__.py                            404    404
GET:/_client/../index.js                            404    404
GET:/_client/..%2f..%2findex.js                     404    404
GET:/_client/index.js/                              404    404
GET:/%5f%70ages/dashboard/index.js%00               404    404
GET:/members.db                                     404    404
GET:/_health/                                       404    404
"""

# What the server has under another method.
METHODS: Final = """
request                                             nobody alice
GET:/members/claim                                  405    405
PUT:/members/items                                  405    405
GET:/members/tickets                                405    405
GET:/members/pause                                  405    405
POST:/members                                       405    405
POST:/items                                         405    405
DELETE:/members                                     405    405
POST:/members/rates                                 405    405
POST:/_queues                                       405    405
GET:/members/bulk                                   405    405
POST:/members/items/0123456789abcdef/why            405    405
GET:/members/items/0123456789abcdef/cancel          405    405
POST:/_health                                       405    405
POST:/_metrics                                      405    405
DELETE:/_ready                                      405    405
POST:/                                              405    405
TRACE:/members/items                                405    405
CONNECT:/members/items                              405    405
"""


@pytest.mark.parametrize("table", [PATHS, METHODS])
async def test_strange_paths_and_methods(table: str, tmp_path: Path) -> None:
    wrong = []
    async with stage(tmp_path, ACCESS) as on:
        for request, cells in rows(table):
            method, _, path = request.partition(":")
            for kind, name in (("nobody", "nothing"), ("alice", "in the header")):
                caller = on.cast.callers[kind][name]
                body = {"item": 1} if method == "POST" else None
                answer = await on.line.ask(method, path.format(long="m" * 5_000), caller, body)
                if answer.status != int(cells[kind]) or answer.json["status"] != answer.status:
                    wrong.append(f"{request}: {kind}: {answer}")
    assert not wrong, "\n".join(wrong)


async def test_a_path_that_the_server_has_not_is_so_for_everybody(tmp_path: Path) -> None:
    """Whether the queue exists, whether the token is valid: byte for byte the same."""
    async with stage(tmp_path, ACCESS) as on:
        callers = [Caller(), on.cast.callers["alice"]["in the URL"], *on.cast.callers["invalid"].values()]
        for method, path in (("GET", "/else"), ("GET", "/work"), ("PUT", "/items"), ("GET", "/claim")):
            answers = {
                await on.line.ask(method, f"/{queue}{path}", caller)
                for queue in ("members", "public", "nowhere")
                for caller in callers
            }
            assert len(answers) == 1, (method, path, answers)


async def test_sockets_of_strange_queues_are_closed_as_of_none(tmp_path: Path) -> None:
    async with stage(tmp_path, ACCESS) as on:
        alice = on.cast.callers["alice"]["in the header"]
        for path in ("/%00/{}", "/../{}", "/MEMBERS/{}", "/_x/{}", "/members%0a/{}", "/{long}/{}"):
            for socket in ("work", "monitor"):
                target = path.format(socket, long="m" * 5_000)
                for caller, code in ((Caller(), 4401), (alice, 4404)):
                    closed = await talk(on.server.ws_url, target, caller, [])
                    assert isinstance(closed, Closed)
                    assert closed.code == code, target


async def test_what_is_open_to_everybody_asks_for_no_token(tmp_path: Path) -> None:
    async with stage(tmp_path, LIMITS + PUBLIC) as on:
        callers = [Caller(), on.cast.callers["alice"]["in the URL"], *on.cast.callers["invalid"].values()]
        for path in ("/_health", "/_ready", "/", "/_pages/dashboard/main.js"):
            answers = {await on.line.ask("GET", path, caller) for caller in callers}
            assert [answer.status for answer in answers] == [200]
