"""Who may see and do what on the dashboard: tokens, rights, and what happens to a page that is open meanwhile."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from leaseway import Client
from leaseway_server.core.access import Right
from leaseway_server.testing import MovableClock
from support.caddy import BLOCKS_SOCKETS, caddy
from support.dashboard import Dashboard, dashboard
from support.server import TestServer, open_queue, running_server
from support.tokens import TokenFile

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUEUES = """
[queues.members]
access = { post = ["alice"], fetch = ["alice"], work = [], admin = ["ada"] }
[queues.own]
visibility = "own"
access = { post = "users", fetch = "users", work = [], admin = ["ada"] }
[queues.inbox]
access = { post = ["alice"], fetch = [], work = [], admin = ["ada"] }
"""
KEPT = "[location.href, document.cookie, JSON.stringify({...localStorage}), document.documentElement.outerHTML].join()"
LIVE = {"members": "Live", "": "empty · 0 workers"}
"""What a place shows once its connection stands."""
HOUR = 3_600_000


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TestServer]:
    """Nothing on it is open."""
    users: dict[str, list[Right]] = {"alice": [], "ada": [], "eve": ["work"]}
    async with running_server(tmp_path_factory.mktemp("server"), QUEUES, users=users) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, server: TestServer) -> AsyncIterator[Dashboard]:
    """In the end no token stood in an address, and nothing was complained of."""
    shown = await dashboard(browser, server.base_url)
    yield shown
    await shown.tab.page.context.close()
    assert not [url for url in shown.asked for token in server.tokens.values() if token in url]
    assert shown.complaints == []


async def test_a_token_is_asked_for_and_kept_nowhere(page: Dashboard, server: TestServer) -> None:
    await page.go("members")
    await expect(page.tab.page.get_by_label("Token")).to_be_focused()
    for wrong, told in (("lw_nobody", "not valid"), ("two words", "without spaces"), ("ключ", "printable ASCII")):
        await page.sign_in(wrong)
        await expect(page.tab.page.get_by_role("alert")).to_contain_text(told)
    await page.sign_in(server.tokens["ada"])
    await expect(page.connection).to_have_attribute("data-state", "open")
    kept = await page.tab.page.evaluate(KEPT) + await page.tab.page.evaluate("JSON.stringify({...sessionStorage})")
    assert server.tokens["ada"] not in kept
    assert any("/monitor?ticket=" in url for url in page.asked)
    await page.tab.page.reload()
    await expect(page.tab.page.get_by_label("Token")).to_be_visible()


async def test_a_token_is_kept_in_the_tab_where_the_person_says_so(page: Dashboard, server: TestServer) -> None:
    await page.go("members")
    await page.sign_in(server.tokens["ada"], keep=True)
    await expect(page.connection).to_have_attribute("data-state", "open")
    await page.tab.page.reload()
    await expect(page.connection).to_have_attribute("data-state", "open")
    assert server.tokens["ada"] not in await page.tab.page.evaluate(KEPT)
    await page.button("Sign out").click()
    await expect(page.tab.page.get_by_label("Token")).to_be_visible()
    assert await page.tab.page.evaluate("sessionStorage.length") == 0


async def test_who_is_no_administrator_has_what_is_its_own(page: Dashboard, server: TestServer) -> None:
    await page.go("members")
    await page.sign_in(server.tokens["alice"])
    await expect(page.connection).to_have_attribute("data-state", "open")
    for name in ("Pause", "Cancel all …"):
        await expect(page.button(name)).to_be_hidden()
    await page.post_json('"mine"')
    await expect(page.badge).to_have_text("pending")
    await expect(page.sheet.get_by_role("button", name="Delete")).to_be_hidden()
    await page.close_item()
    await expect(page.rows.locator(".badge")).to_have_text(["pending"])
    async with Client(f"{server.ws_url}/members", token=server.tokens["alice"]) as queue:
        elsewhere = await queue.post("posted elsewhere")
    await page.button("Show all that is mine").click()
    await expect(page.rows).to_have_count(2)
    assert [hello["paceMs"] for _, hello in page.hellos] == [1000, 1000], "two connections, two pushes a second in all"
    await page.tab.page.get_by_label("An item's id").fill(elsewhere.id)
    await page.button("Show it").click()
    await page.act("Cancel", "Cancel it")
    await expect(page.badge).to_have_text("cancelled")
    await page.close_item()
    await expect(page.rows.filter(has_text="cancelled")).to_have_count(1)


async def test_where_each_sees_its_own_nothing_is_told_of_others(page: Dashboard, server: TestServer) -> None:
    async with Client(f"{server.ws_url}/own", token=server.tokens["ada"]) as queue:
        hidden = await queue.post("of ada")
    await page.go("own")
    await page.sign_in(server.tokens["alice"])
    await expect(page.tab.page.get_by_text("Here each sees its own items")).to_be_visible()
    await page.tab.page.get_by_label("An item's id").fill(hidden.id)
    await page.button("Show it").click()
    await expect(page.sheet).to_contain_text("There is no such item, or it is not yours to see.")


async def test_who_may_post_and_not_look_has_the_form(page: Dashboard, server: TestServer) -> None:
    await page.go("inbox")
    await page.sign_in(server.tokens["alice"])
    await expect(page.connection).to_contain_text("one cannot watch this queue")
    await page.post_json("1")
    await expect(page.posting.get_by_role("status")).to_have_text(re.compile("^Posted: [0-9a-f]{16}[.]$"))
    await expect(page.posting.get_by_role("status")).to_be_visible()
    assert sum(server.engine("inbox").tally.counts.values()) == 1


async def test_a_queue_without_any_right_is_not_there(page: Dashboard, server: TestServer) -> None:
    await page.go()
    await page.sign_in(server.tokens["eve"])
    await expect(page.tab.page.get_by_text("There is no queue that you may see.")).to_be_visible()


@pytest.mark.parametrize("place", ["members", ""])
async def test_where_a_token_is_revoked_meanwhile_another_is_asked_for(
    place: str, browser: Browser, tmp_path: Path
) -> None:
    async with running_server(tmp_path, QUEUES, users={"ada": []}) as server:
        page = await dashboard(browser, server.base_url)
        await page.go(place)
        await page.sign_in(server.tokens["ada"], keep=True)
        await expect(page.connection if place else page.tab.page.locator(".cards")).to_contain_text(LIVE[place])
        with TokenFile(tmp_path / "data") as store:
            (token,) = store.all()
            assert store.revoke(token.id)
            another = store.add("ada", None, None, 0, 0)[1]
        await expect(page.tab.page.get_by_text("Your token is not valid, or not any more")).to_be_visible()
        assert await page.tab.page.evaluate("sessionStorage.length") == 0
        await page.sign_in(another)
        await expect(page.connection if place else page.tab.page.locator(".cards")).to_contain_text(LIVE[place])
        await page.tab.page.context.close()


async def test_where_a_token_s_time_is_over_meanwhile_nothing_is_shown_any_more(
    browser: Browser, tmp_path: Path
) -> None:
    clock = MovableClock()
    async with running_server(tmp_path, QUEUES, users={"ada": []}, clock=clock) as server:
        with TokenFile(tmp_path / "data") as store:
            brief = store.add("ada", None, None, clock.now() + HOUR, clock.now())[1]
        async with Client(f"{server.ws_url}/members", token=server.tokens["ada"]) as queue:
            job = await queue.post("seen by who may")
        page = await dashboard(browser, server.base_url)
        await page.go(f"members/{job.id}")
        await page.sign_in(brief)
        await expect(page.part("item")).to_contain_text("seen by who may")
        clock.move(HOUR)
        await expect(page.tab.page.get_by_text("Your token is not valid, or not any more")).to_be_visible()
        await expect(page.tab.page.get_by_text("seen by who may")).to_have_count(0)
        await expect(page.rows).to_have_count(0)
        await page.sign_in(server.tokens["ada"])
        await expect(page.part("item")).to_contain_text("seen by who may")
        await page.tab.page.context.close()


async def test_a_restart_is_survived_and_a_queue_that_was_removed_is_told(browser: Browser, tmp_path: Path) -> None:
    toml = open_queue("kept") + open_queue("removed")
    async with running_server(tmp_path, toml) as server:
        page, other = await dashboard(browser, server.base_url), await dashboard(browser, server.base_url)
        await page.open("kept")
        async with Client(f"{server.ws_url}/removed") as queue:
            job = await queue.post("in a queue that goes")
        await other.open(f"removed/{job.id}")
        await expect(other.part("item")).to_contain_text("in a queue that goes")
    await expect(page.connection).to_have_attribute("data-state", "lost")
    doubt = page.tab.page.get_by_text("Nobody knows whether that was done: cannot reach")
    await page.button("Pause").click()
    await expect(doubt).to_be_visible()
    await page.button("Delete all …").click()
    bulk = page.tab.page.locator(".bulk p[role=status]")
    await expect(bulk).to_have_text(re.compile(r"^cannot reach .*\. Nothing was changed\.$"))
    async with running_server(tmp_path, open_queue("kept"), port=server.port) as again:
        await expect(page.connection).to_have_attribute("data-state", "open")
        await expect(doubt).to_have_count(0)
        async with Client(f"{again.ws_url}/kept") as queue:
            await queue.post(1)
        await expect(page.figure("pending")).to_have_text("1")
        await expect(page.rows).to_have_count(1)
        await expect(other.tab.page.get_by_text("This queue cannot be shown")).to_be_visible()
        await expect(other.sheet).to_have_count(0)
        await other.button("Show what there is").click()
        await expect(other.connection).to_have_attribute("data-state", "open")
        for each in (page, other):
            await each.tab.page.context.close()


@pytest.mark.parametrize("place", ["demo", ""])
async def test_where_a_proxy_blocks_sockets_it_says_so_and_goes_on(
    place: str, browser: Browser, tmp_path: Path
) -> None:
    async with (
        running_server(tmp_path, open_queue() + open_queue("other")) as server,
        caddy(tmp_path, server.base_url, BLOCKS_SOCKETS) as proxy,
    ):
        page = await dashboard(browser, server.base_url)
        await page.tab.page.clock.install()
        await page.tab.page.goto(f"{proxy.base_url}/#{place}")
        if place:
            await expect(page.connection).to_have_attribute("data-state", "lost")
        await page.tab.page.clock.fast_forward(11_000)
        await expect(page.connection).to_contain_text("a proxy in between seems to block it")
        if not place:
            await page.tab.page.locator(".cards").get_by_role("link", name="demo").click()
        await page.post_json("1")
        await expect(page.badge).to_have_text("pending")
        await expect(page.part("item")).to_contain_text("1")
        await expect(page.part("why")).to_contain_text("no worker")
        await page.act("Cancel", "Cancel it")
        await expect(page.badge).to_have_text("cancelled")
        await page.close_item()
        await page.button("Refresh").click()
        await page.tab.page.clock.fast_forward(5_000)
        await expect(page.rows.locator(".badge")).to_have_text(["cancelled"])
        await page.tab.page.context.close()
