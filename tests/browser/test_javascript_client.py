"""The JavaScript client in a real browser: handlers in Web Workers, their transfers, crashes and hangs; a page that is
loaded anew, and one whose connections are cut.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from leaseway import Attempt, Client, Worker
from support.browser import Tab, open_tab
from support.files import served_files
from support.server import TestServer, running_server

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with served_files() as address:
        yield address


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tab(origin: str) -> AsyncIterator[Tab]:
    """A page of the origin that has the client, as `leaseway`. Nothing may be complained of in it."""
    async with open_tab() as opened:
        await opened.page.goto(origin)
        await load_client(opened)
        yield opened
        assert opened.complaints == []


async def load_client(tab: Tab) -> None:
    """From now on the page has the client, until it is loaded anew."""
    await tab.page.evaluate("import('/client/index.js').then((all) => Object.assign(window, { leaseway: all }))")


async def run(tab: Tab, code: str) -> Any:
    """What the code returns in the page; `hosted`, `tell` and `leaseway` are at hand, and all is closed at the end."""
    return await tab.page.evaluate(
        """async (code) => {
            const hosts = [];
            const hosted = (options) => hosts[hosts.push(leaseway.hostInWebWorker("/files/handlers.js", options)) - 1];
            const tell = (promise) => promise.then((value) => ({ value }), ({ name, message }) => ({ name, message }));
            const AsyncFunction = (async () => {}).constructor;
            try {
                return await new AsyncFunction("hosted", "tell", code)(hosted, tell);
            } finally {
                for (const host of hosts) host.close();
            }
        }""",
        code,
    )


async def test_buffers_are_transferred_both_ways(tab: Tab) -> None:
    told = await run(
        tab,
        """
        const pixels = new Uint8Array([1, 2, 3, 250]).buffer;
        const answer = hosted()({ do: "sum", pixels });
        const gone = pixels.byteLength;
        const { sum, pixels: back } = await answer;
        const { numbers, pixels: more } = await hosted()({ do: "many" });
        const view = new Uint8Array(8);
        const { nested } = await hosted()({ do: "view", pixels: view });
        const lengths = [gone, back.byteLength, numbers.length, more.byteLength, view.byteLength];
        return [sum, ...lengths, nested[0].view.length];
        """,
    )
    assert told == [256, 0, 4, 300_000, 5, 0, 2]


async def test_a_crash_ends_the_attempt_and_not_the_page(tab: Tab) -> None:
    told = await run(
        tab,
        """
        const host = hosted();
        const crashed = await tell(host({ do: "crash" }));
        const after = await host({ do: "nothing" });
        const other = leaseway.hostInWebWorker("/client/errors.js");
        const missing = await tell(other({}));
        other.close();
        const stray = await host({ do: "stray" });
        await tell(host({ do: "nothing" })); // It crashes during this one, or has before.
        const unharmed = await host({ do: "busy", ms: 1 });
        return [crashed, after ?? "nothing", missing, stray, unharmed];
        """,
    )
    assert told[0]["name"] == "HandlerCrashed"
    assert "boom" in told[0]["message"]
    assert told[1] == "nothing"
    assert told[2]["message"].endswith("/client/errors.js exports no handler")
    assert told[3:] == ["done", "done"]


async def test_a_hang_is_ended_while_the_page_goes_on_and_work_that_lasts_is_not(tab: Tab) -> None:
    told = await run(
        tab,
        """
        const host = hosted({ hangMs: 400 });
        let turns = 0;
        const counting = setInterval(() => turns++, 10);
        const hung = await tell(host({ do: "hang" }));
        const closed = await tell(host({ do: "close" }));
        clearInterval(counting);
        const patient = await tell(host({ do: "patient", ms: 1000 }));
        const busy = await tell(host({ do: "busy", ms: 100 }));
        return { hung: hung.name, closed: closed.name, smooth: turns > 10, patient, busy };
        """,
    )
    assert told == {
        "hung": "HandlerHung",
        "closed": "HandlerHung",
        "smooth": True,
        "patient": {"value": "after all"},
        "busy": {"value": "done"},
    }


async def test_an_abort_ends_it_on_the_spot(tab: Tab) -> None:
    told = await run(
        tab,
        """
        const abort = new AbortController();
        const answer = tell(hosted()({ do: "hang" }, { signal: abort.signal }));
        abort.abort();
        return [await answer, await tell(hosted()({ do: "hang" }, { signal: abort.signal }))];
        """,
    )
    assert [one["name"] for one in told] == ["AbortError", "AbortError"]


async def test_what_a_handler_says_comes_out_as_it_was(tab: Tab) -> None:
    told = await run(
        tab,
        """
        const host = hosted();
        const said = [];
        const progress = async (value) => {
            said.push(value);
            if (value === "refused") throw new leaseway.Rejected("schema", []);
        };
        const evil = JSON.parse('{"do": "facts", "__proto__": {"polluted": 1}}');
        const permanent = await host({ do: "permanent" }).catch((error) => error);
        const release = await host({ do: "release" }).catch((error) => error);
        return {
            fault: await tell(host({ do: "fault" })),
            permanent: [permanent instanceof leaseway.Permanent, permanent.code, permanent.detail.at],
            release: [release instanceof leaseway.Release, release.delayMs],
            uncloneable: (await tell(host({ do: "uncloneable" }))).name,
            facts: await host(evil, { id: "a", attempts: 2, checkpoint: [1], meta: null }),
            polluted: {}.polluted ?? "no",
            progress: [await host({ do: "progress" }, { progress }), said],
            both: await Promise.all([host({ do: "busy", ms: 50 }), host({ do: "busy", ms: 50 })]),
        };
        """,
    )
    assert told == {
        "fault": {"name": "RangeError", "message": "too far"},
        "permanent": [True, "never", 1],
        "release": [True, 5],
        "uncloneable": "DataCloneError",
        "facts": {"item": {"do": "facts"}, "id": "a", "attempts": 2, "checkpoint": [1], "meta": None},
        "polluted": "no",
        "progress": ["Rejected", [{"percent": 50}, "refused"]],
        "both": ["done", "done"],
    }


async def test_whatever_a_handler_throws_or_leaves_behind_its_attempt_ends_and_the_next_is_its_own(tab: Tab) -> None:
    told = await run(
        tab,
        """
        const host = hosted({ hangMs: Infinity });
        const said = [];
        const job = { progress: async (value) => void said.push(value) };
        const ends = [];
        for (const what of ["untellable", "nameless", "unreadable", "detached"])
            ends.push((await tell(host({ do: what, pixels: new ArrayBuffer(4) }))).message ?? "no error");
        const noise = await host({ do: "noise" }, job);
        await host({ do: "leftover" }, job);
        const late = await host({ do: "after" }, job);
        const names = await host({ do: "names", value: JSON.parse('{"__proto__": 1, "constructor": 2}') });
        return { ends, noise, late, said, names };
        """,
    )
    assert [text.split(":")[0] for text in told.pop("ends")[:3]] == ["what the handler threw cannot be told"] * 3
    assert told == {
        "noise": "heard",
        "late": "LeaseLost",
        "said": ["own"],
        "names": [["__proto__", 1], ["constructor", 2]],
    }


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"status": 503}, "/files/fine.js"),
        ({"body": "throw new Error('not today')", "content_type": "text/javascript"}, "not today"),
    ],
    ids=["missing", "throwing"],
)
async def test_a_module_that_could_not_be_loaded_is_loaded_anew(tab: Tab, answer: dict[str, Any], said: str) -> None:
    context = tab.page.context
    await context.route("**/fine.js", lambda route: route.fulfill(**answer), times=1)
    told = await tab.page.evaluate(
        """async () => {
            const host = leaseway.hostInWebWorker("/files/fine.js");
            const first = await host({}).catch(({ message }) => message);
            const second = await host({});
            host.close();
            return [first, second];
        }"""
    )
    assert said in told[0]
    assert told[1] == "loaded"
    tab.complaints[:] = [each for each in tab.complaints if "503" not in each]  # The browser's own line about it.


QUEUE = """
[server]
allowed_origins = ["{origin}"]
ping_interval = "500ms"
ping_timeout = "1s"

[queues.demo]
lease = "2s"
retry = {{ delays = ["10ms"] }}
access = {{ post = "users", fetch = "users", work = "users", admin = "users" }}
"""


@pytest_asyncio.fixture(loop_scope="module")
async def server(tmp_path: Path, origin: str) -> AsyncIterator[TestServer]:
    async with running_server(tmp_path, QUEUE.format(origin=origin), users={"alice": []}) as running:
        yield running


async def test_a_page_is_a_worker_whatever_its_handlers_do(tab: Tab, server: TestServer) -> None:
    """Crash and hang are retried; a lease is renewed while its handler computes for longer than it lasts."""
    told = await run(
        tab,
        f"""
        const [url, token] = ["{server.base_url}/demo", "{server.tokens["alice"]}"];
        const queue = new leaseway.Queue(url, {{ token }});
        const worker = new leaseway.Worker(url, {{ token, concurrency: 4, handler: hosted({{ hangMs: 6_000 }}) }});
        const hasty = new leaseway.Worker(url, {{
            token,
            criteria: {{ do: "hang" }},
            handler: hosted({{ hangMs: 400 }}),
        }});
        const items = [{{ do: "busy", ms: 2_500 }}, {{ do: "crash", once: true }}, {{ do: "permanent" }}];
        const jobs = await Promise.all(items.map((item) => queue.post(item)));
        const results = await Promise.all(jobs.map((job) => tell(job.result)));
        await worker.stop();
        const hung = await queue.post({{ do: "hang", once: true }});
        results.push(await tell(hung.result));
        const {{ attempts }} = await queue.ask("GET", `items/${{hung.id}}/attempts`);
        await hasty.stop();
        queue.close();
        const codes = attempts.map(({{ error }}) => error.code);
        return {{ results, codes, tries: jobs.map(({{ view }}) => view.attempts) }};
        """,
    )
    assert told == {
        "results": [
            {"value": "done"},
            {"value": "attempt 2"},
            {"name": "Failed", "message": f"{told['results'][2]['message'].partition(':')[0]}: never"},
            {"value": "attempt 2"},
        ],
        "codes": ["HandlerHung"],
        "tries": [1, 2, 1],
    }


WATCH = """([url, token]) => {
    window.queue = new leaseway.Queue(url, { token, random: () => 0.1 });
    window.heard = [];
    for (const kind of ["online", "offline"]) queue.addEventListener(kind, () => heard.push(kind));
    const found = new Set();
    let bothFound;
    window.bothOpen = new Promise((resolve) => { bothFound = resolve; });
    window.mine = (async () => {
        const ends = {};
        for await (const { id, status } of queue.watch("mine")) {
            if (found.add(id).size === 2) bothFound();
            if (status === "finished") ends[id] = (ends[id] ?? 0) + 1;
            if (Object.keys(ends).length === 2) return ends;
        }
    })();
}"""


async def test_a_page_that_is_loaded_anew_and_then_cut_sees_each_end_once(tab: Tab, server: TestServer) -> None:
    access = [f"{server.base_url}/demo", server.tokens["alice"]]
    await tab.page.evaluate(WATCH, access)
    ids = await tab.page.evaluate(
        "Promise.all([1, 2].map((n) => queue.post(n))).then((jobs) => jobs.map(({ id }) => id))"
    )
    await tab.page.reload()
    await load_client(tab)
    await tab.page.evaluate(WATCH, access)
    await tab.page.evaluate("(id) => { window.result = queue.job(id).result; }", ids[0])
    await tab.page.evaluate("Promise.all([bothOpen, queue.connected()])")
    await cut(server)
    async with Worker(f"{server.ws_url}/demo", token=server.tokens["alice"]) as worker:
        worker.handler(echo)
        assert await tab.page.evaluate("mine") == dict.fromkeys(ids, 1)
        assert await tab.page.evaluate("result") == 1
    assert await tab.page.evaluate("heard.filter((what) => !what.startsWith('mine'))") == [
        "online",
        "offline",
        "online",
    ]
    await tab.page.evaluate("queue.close()")


OFFLINE = """async ([url, token]) => {
    const { CLOCK } = await import("/client/outside.js");
    const late = (action, ms) => setTimeout(action, 1_000 * ms); // So that what comes back does so by the event alone.
    const queue = new leaseway.Queue(url, { token, random: () => 0.9, clock: { ...CLOCK, setTimeout: late } });
    const heard = [];
    for (const kind of ["online", "offline"]) queue.addEventListener(kind, () => heard.push(kind));
    const job = await queue.post("while it is away");
    const ends = [];
    const follow = (async () => {
        for await (const { status } of job) if (status === "finished") ends.push(status);
    })();
    window.away = new Promise((resolve) => queue.addEventListener("offline", resolve));
    window.over = follow.then(() => queue.close()).then(() => ({ heard, ends }));
    return job.id;
}"""


async def test_a_page_without_a_network_comes_back_with_it_and_has_missed_no_end(tab: Tab, server: TestServer) -> None:
    job_id = await tab.page.evaluate(OFFLINE, [f"{server.base_url}/demo", server.tokens["alice"]])
    await tab.page.context.set_offline(True)
    await cut(server)
    await tab.page.evaluate("away.then(() => {})")
    url, token = f"{server.ws_url}/demo", server.tokens["alice"]
    async with Client(url, token=token) as queue, Worker(url, token=token) as worker:
        worker.handler(echo)
        await (await queue.get(job_id)).result()
    await tab.page.context.set_offline(False)
    assert await tab.page.evaluate("over") == {"heard": ["online", "offline", "online"], "ends": ["finished"]}


async def cut(server: TestServer) -> None:
    """Every socket of the queue ends."""
    assert server.running.site is not None
    for socket in list(server.running.site.queues["demo"].sockets):
        await socket.drain()


async def echo(item: Any, _attempt: Attempt) -> Any:
    """Gives the item back."""
    return item
