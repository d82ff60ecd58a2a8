"""The inbox, the bell and pushes in a real browser: by mouse, keyboard and names, in light and dark, on a phone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, Page, expect

from leaseway_notify.vapid import new_key
from support.axe import faults_in_all_looks
from support.browser import Tab, new_tab, open_browser
from support.browser_keys import Browser as Keys
from support.notify_service import PATIENCE, Service, notify_service
from support.web_service import WebService, always, web_service

pytestmark = pytest.mark.asyncio(loop_scope="module")
SUBSCRIBED = """
PushManager.prototype.subscribe = async () => globalThis.subscribed = true && GIVEN;
PushManager.prototype.getSubscription = async () => globalThis.subscribed ? GIVEN : null;
const GIVEN = {
    endpoint: SAID.endpoint,
    toJSON: () => SAID,
    unsubscribe: async () => { globalThis.subscribed = false; },
};
"""


@dataclass
class Stage:
    """A service, the push service of the tests, an application's site, and a worker."""

    service: Service
    pushes: WebService
    site: WebService

    async def person(self, name: str) -> str:
        """Somebody new."""
        await self.service.person(name)
        return name

    async def put(self, recipient: str, title: str, **members: Any) -> None:
        """An event, delivered by the worker."""
        await self.service.notify(recipient=recipient, title=title, **members)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """One for all tests of the file."""
    folder: Path = tmp_path_factory.mktemp("pages")
    new_key(folder / "vapid.pem")
    push = {"keys": str(folder / "vapid.pem"), "subject": "mailto:ops@example.com", "allow_private": True}
    async with (
        web_service(always(201)) as pushes,
        web_service(always(404)) as site,
        notify_service(folder, push=push, service={"origins": [site.url]}) as service,
        service.worker(),
    ):
        yield Stage(service, pushes, site)


@pytest_asyncio.fixture(loop_scope="module")
async def tab(browser: Browser) -> AsyncIterator[Tab]:
    """A tab."""
    async with quiet_tab(browser) as tab:
        yield tab


@pytest_asyncio.fixture(loop_scope="module")
async def notified_tab() -> AsyncIterator[Tab]:
    """A tab of a browser that has notifications."""
    async with open_browser(whole=True) as browser, quiet_tab(browser) as tab:
        yield tab


@asynccontextmanager
async def quiet_tab(browser: Browser) -> AsyncIterator[Tab]:
    """A tab. In the end nothing was complained of: no error, no breach of the policy."""
    tab = await new_tab(browser)
    tab.page.set_default_timeout(15_000)
    yield tab
    await tab.page.context.close()
    assert [one for one in tab.complaints if not one.startswith("Failed to load resource: the server")] == []


async def show(tab: Tab, stage: Stage, recipient: str) -> Page:
    """The inbox of somebody, once it is live."""
    await tab.page.goto(f"{stage.service.url}/#token={stage.service.token(recipient)}")
    await expect(bell(tab.page)).to_have_attribute("data-state", "open")
    return tab.page


def bell(page: Page) -> Any:
    """The bell's button, as people find it."""
    return page.get_by_role("button", name="Notifications,")


async def test_the_bell_rings_and_is_read_by_keyboard_alone(stage: Stage, tab: Tab) -> None:
    page = await show(tab, stage, await stage.person("kim"))
    await expect(bell(page)).to_have_accessible_name("Notifications, none unread")
    await stage.put("kim", "Bob wrote", body="Hello <b>Kim</b>", payload={"url": "/doc/1"})
    await expect(bell(page)).to_have_accessible_name("Notifications, 1 unread")
    await expect(page.locator("leaseway-bell [role=status]")).to_have_text("New: Bob wrote")
    await expect(bell(page)).to_have_class("bell rings")
    await bell(page).focus()
    await page.keyboard.press("Enter")
    panel = page.get_by_role("dialog", name="Notifications")
    await expect(panel.get_by_role("link", name="Bob wrote")).to_have_attribute("href", f"{stage.service.url}/doc/1")
    await expect(panel.get_by_text("Hello <b>Kim</b>")).to_be_visible()
    await page.keyboard.press("Tab")
    await expect(panel.get_by_role("button", name="Mark all read")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(bell(page)).to_have_accessible_name("Notifications, none unread")
    await page.keyboard.press("Escape")
    await expect(panel).to_be_hidden()
    await expect(bell(page)).to_be_focused()
    assert "token" not in page.url


async def test_an_inbox_of_nobody_says_why_it_is_empty(stage: Stage, tab: Tab) -> None:
    page = await show(tab, stage, "nobody")
    await expect(page.get_by_text("your application has not said who you are")).to_be_visible()
    await show(tab, stage, await stage.person("nora"))
    await page.reload()
    await expect(page.get_by_text("Nothing here.")).to_be_visible()


async def test_the_inbox_lists_marks_and_archives(stage: Stage, tab: Tab) -> None:
    await stage.person("lee")
    page = await show(tab, stage, "lee")
    entries = page.get_by_role("list", name="Notifications").get_by_role("listitem")
    for title in ("first", "second"):
        await stage.put("lee", title)
        await expect(entries.first).to_contain_text(title)
    await expect(page).to_have_title("(2) Notifications")
    await page.get_by_role("button", name="Mark read: second").click()
    await expect(page).to_have_title("(1) Notifications")
    await expect(entries.first.get_by_role("button", name="Mark unread: second")).to_be_focused()
    await page.get_by_role("button", name="Unread", exact=True).click()
    await expect(entries).to_have_count(1)
    await expect(page.get_by_role("button", name="Unread", exact=True)).to_have_attribute("aria-pressed", "true")
    await page.get_by_role("button", name="All", exact=True).click()
    await page.get_by_role("button", name="Archive: first").click()
    await expect(entries).to_have_count(1)
    await page.get_by_role("button", name="Archived").click()
    await page.get_by_role("button", name="Take out of the archive: first").click()
    await expect(page.get_by_text("Nothing here.")).to_be_visible()


async def test_what_is_marked_here_or_elsewhere_is_listed_anew_once(stage: Stage, tab: Tab) -> None:
    await stage.person("liv")
    page = await show(tab, stage, "liv")
    ids = [(await stage.service.notify(recipient="liv", title=title))["id"] for title in ("first", "second")]
    entries = page.get_by_role("list", name="Notifications").get_by_role("listitem")
    await expect(entries).to_have_count(2)
    lists: list[str] = []
    page.on("request", lambda request: lists.append(request.url) if "/inbox?" in request.url else None)
    await page.get_by_role("button", name="Mark read: second").click()
    await expect(page.get_by_role("button", name="Mark unread: second")).to_be_focused()
    headers = stage.service.headers("liv")
    await stage.service.http.post("/inbox/read", json={"ids": ids[:1]}, headers=headers)
    await expect(page.get_by_role("button", name="Mark unread: first")).to_be_visible()
    assert len(lists) == 2  # What the socket told of the page's own mark came before.


async def test_the_keyboard_stays_where_it_was_when_something_new_comes(stage: Stage, tab: Tab) -> None:
    await stage.person("lou")
    page = await show(tab, stage, "lou")
    await stage.put("lou", "first")
    archive = page.get_by_role("button", name="Archive: first")
    await archive.focus()
    await stage.put("lou", "second")
    await expect(page.get_by_role("button", name="Archive: second")).to_be_visible()
    await expect(archive).to_be_focused()


async def test_an_address_that_only_a_program_takes_for_one_is_no_link(stage: Stage, tab: Tab) -> None:
    await stage.person("ina")
    page = await show(tab, stage, "ina")
    entries = page.locator("main").get_by_role("listitem")
    for number, url in enumerate(("https://exa%mple/", "https://1.2.3.4.5/", "https://app.example/"), 1):
        await stage.put("ina", f"no {number}", payload={"url": url})
        await expect(entries).to_have_count(number)
    await bell(page).click()
    for shown_in in (page.get_by_role("dialog"), page.locator("main")):
        await expect(shown_in.get_by_role("listitem")).to_have_count(3)
        await expect(shown_in.get_by_role("link")).to_have_text(["no 3"])
    await expect(page.locator("#fault")).to_be_empty()


async def test_older_ones_are_shown_when_they_are_asked_for(stage: Stage, tab: Tab) -> None:
    await stage.person("max")
    events = [{"type": "system", "recipient": "max", "title": f"no {number}"} for number in range(22)]
    page = await show(tab, stage, "max")
    await stage.service.programs.post("/notify", json=events)
    entries = page.get_by_role("list", name="Notifications").get_by_role("listitem")
    await expect(page).to_have_title("(22) Notifications")
    await expect(entries).to_have_count(20)
    await page.get_by_role("button", name="Show older ones").click()
    await expect(entries).to_have_count(22)
    await expect(page.get_by_role("button", name="Show older ones")).to_be_hidden()


async def test_a_bell_in_the_applications_page_gets_its_tokens_there(stage: Stage, tab: Tab) -> None:
    await stage.person("ned")
    tokens: list[str] = []
    html = f"""<!doctype html><script type="module" src="{stage.service.url}/bell.js"></script>
        <leaseway-bell token-url="/token" inbox="{stage.service.url}/"></leaseway-bell>"""

    async def application(request: web.BaseRequest, _body: bytes) -> web.StreamResponse:
        if request.path != "/token":
            return web.Response(text=html, content_type="text/html")
        tokens.append(stage.service.token("ned", 60))
        return web.json_response({"token": tokens[-1]})

    stage.site.answer = application
    await tab.page.goto(stage.site.url)
    await stage.put("ned", "From elsewhere")
    await expect(bell(tab.page)).to_have_accessible_name("Notifications, 1 unread")
    stage.service.clock.ahead = 61_000
    try:
        stage.service.served.site.live.announce(["ned"])  # The socket ends with its token, and another one is taken.
        await bell(tab.page).click()
        await expect(tab.page.get_by_role("dialog").get_by_text("From elsewhere")).to_be_visible()
        await expect(bell(tab.page)).to_have_attribute("data-state", "open")
    finally:
        stage.service.clock.ahead = 0
    assert len(set(tokens)) == 2


async def test_a_token_that_is_over_is_said(stage: Stage, tab: Tab) -> None:
    await stage.person("oda")
    page = await show(tab, stage, "oda")
    stage.service.clock.ahead = 901_000
    try:
        stage.service.served.site.live.announce(["oda"])
        await expect(page.get_by_text("You are signed out here.")).to_be_visible()
        await page.get_by_role("button", name="Unread", exact=True).click()
        await expect(page.get_by_role("alert")).to_be_hidden()  # Said once, and without headers and tokens.
        await expect(bell(page)).to_have_accessible_name("Notifications, none unread, signed out")
    finally:
        stage.service.clock.ahead = 0


async def test_settings_are_changed_without_a_script(stage: Stage, tab: Tab) -> None:
    await stage.person("pam")
    page = await show(tab, stage, "pam")
    await page.get_by_role("button", name="Settings").click()
    await page.get_by_role("checkbox", name="chat, Email").uncheck()
    await page.get_by_role("checkbox", name="Neither mails nor pushes in quiet hours").check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("status")).to_have_text("Saved.")
    profile = await stage.service.store.profile("pam")
    assert profile is not None
    said = profile.preferences.as_json()
    assert [(one["type"], one["channel"]) for one in said["mutes"]] == [("chat", "email")]
    assert said["quietHours"] == {"start": "22:00", "end": "07:00"}


async def test_each_page_has_an_icon_that_its_policy_lets_it_have(stage: Stage, tab: Tab) -> None:
    page = await show(tab, stage, await stage.person("rob"))
    link = f"{stage.service.url}/u/{stage.service.link('chat', 'rob')}"

    async def look() -> None:
        icon = page.locator("link[rel=icon]")
        await icon.evaluate("({ href }) => Object.assign(new Image(), { src: href }).decode()")

    await look()
    for place in (f"{link}-wrong", link):
        await page.goto(place)
        await look()
    for button in ("No more of these", "It was a mistake"):
        await page.get_by_role("button", name=button).click()
        await look()


async def test_one_unsubscribes_and_takes_it_back(stage: Stage, tab: Tab) -> None:
    await stage.person("quin")
    await tab.page.goto(f"{stage.service.url}/u/{stage.service.link('chat', 'quin')}")
    await tab.page.get_by_role("button", name="No more of these").click()
    await expect(tab.page.get_by_role("heading", name="You get no more of these")).to_be_visible()
    await tab.page.get_by_role("button", name="It was a mistake").click()
    await expect(tab.page.get_by_role("heading", name="You get these again")).to_be_visible()


async def test_a_browser_registers_for_pushes_and_gets_one(stage: Stage, notified_tab: Tab) -> None:
    """Chromium without a push service of its own: the subscription is the test's, all else is real."""
    await stage.person("ray")
    keys, endpoint = Keys(), f"{stage.pushes.url}/ray"
    one = keys.subscription(endpoint)
    said = {"endpoint": endpoint, "expirationTime": None, "keys": {"p256dh": one.p256dh, "auth": one.auth}}
    await notified_tab.page.add_init_script(f"const SAID = {orjson.dumps(said).decode()};\n{SUBSCRIBED}")
    await notified_tab.page.context.grant_permissions(["notifications"], origin=stage.service.url)
    page = await show(notified_tab, stage, "ray")
    await page.get_by_role("button", name="Get pushes on this browser").click()
    await expect(page.get_by_role("button", name="Pushes to this browser: on")).to_be_visible()
    await stage.put("ray", "Somebody signed in", type="security", payload={"url": "/account"})
    async with asyncio.timeout(PATIENCE):
        await stage.pushes.arrived.wait()
    pushed = keys.read(stage.pushes.asked[-1])
    assert (pushed["title"], pushed["url"]) == ("Somebody signed in", "/account")
    assert await shown(page, stage, orjson.dumps(pushed).decode()) == ["Somebody signed in"]
    await page.get_by_role("button", name="Pushes to this browser: on").click()
    await expect(page.get_by_role("button", name="Get pushes on this browser")).to_be_visible()
    profile = await stage.service.store.profile("ray")
    assert profile is not None
    assert profile.subscriptions == ()


async def shown(page: Page, stage: Stage, data: str) -> list[str]:
    """What the service worker shows of a push, which the browser hands to it as one that came."""
    devtools = await page.context.new_cdp_session(page)
    registered: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_registration(event: Any) -> None:
        for each in event["registrations"]:
            if not registered.done() and not each["isDeleted"]:
                registered.set_result(each["registrationId"])

    devtools.on("ServiceWorker.workerRegistrationUpdated", on_registration)
    await devtools.send("ServiceWorker.enable")
    async with asyncio.timeout(PATIENCE):
        given = {"origin": stage.service.url, "registrationId": await registered, "data": data}
    await devtools.send("ServiceWorker.deliverPushMessage", given)
    titles = """async () => {
        const registration = await navigator.serviceWorker.ready;
        for (;;) {
            const shown = await registration.getNotifications();
            if (shown.length) return shown.map((one) => one.title);
            await new Promise(requestAnimationFrame);
        }
    }"""
    async with asyncio.timeout(PATIENCE):
        return list(await page.evaluate(titles))


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_a_phone_and_can_be_read(stage: Stage, tab: Tab, scheme: Any) -> None:
    name = await stage.person(f"sam-{scheme}")
    page = tab.page
    await page.set_viewport_size({"width": 360, "height": 740})
    await page.emulate_media(color_scheme=scheme)
    await show(tab, stage, name)
    await stage.put(name, "a title that is long " * 10, body="word" * 60)
    await expect(page.get_by_role("listitem")).to_have_count(1)
    await bell(page).click()
    await expect(page.get_by_role("dialog")).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = await page.get_by_role("dialog").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    colours = await page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    assert (_brightness(colours[0]) < _brightness(colours[1])) == (scheme == "light")
    small = await page.evaluate(
        "[...document.querySelectorAll('button')].filter((one) => one.offsetHeight && one.offsetHeight < 40).length"
    )
    assert small == 0
    await page.keyboard.press("Escape")
    places = [
        await page.get_by_role("button", name=f"{words}: a title").bounding_box() for words in ("Mark read", "Archive")
    ]
    assert len({place and place["y"] for place in places}) == 1


async def test_the_settings_fit_a_phone_with_their_words_whole(stage: Stage, tab: Tab) -> None:
    page = tab.page
    await page.set_viewport_size({"width": 360, "height": 740})
    await show(tab, stage, await stage.person("tom"))
    await page.get_by_role("button", name="Settings").click()
    row = page.get_by_role("row", name="security")
    await expect(row.get_by_text("always")).to_have_count(3)
    await expect(row.get_by_role("checkbox")).to_have_count(0)
    for wide in ("document.documentElement", "document.querySelector('.wide')"):
        assert await page.evaluate(f"{wide}.scrollWidth <= {wide}.clientWidth")
    lines = """[...document.querySelectorAll("th, td .hint")].filter((one) => {
        const words = document.createRange();
        words.selectNodeContents(one);
        return !one.textContent.includes(" ") && new Set([...words.getClientRects()].map((line) => line.top)).size > 1;
    }).map((one) => one.textContent)"""
    assert await page.evaluate(lines) == []


async def test_axe_finds_nothing_on_any_page(stage: Stage, tab: Tab) -> None:
    """In light colours, and in dark ones on a phone."""
    name, url = await stage.person("ann"), stage.service.url
    page = await show(tab, stage, name)
    await stage.put(name, "Read me", body="a body", payload={"url": "/doc/1"})
    await bell(page).click()
    for shown_in in (page.locator("main"), page.get_by_role("dialog")):
        await expect(shown_in.get_by_role("listitem")).to_have_count(1)
    assert await faults_in_all_looks(page) == []
    await page.goto(f"{url}/p/{stage.service.link('', name)}")
    assert await faults_in_all_looks(page) == []
    await page.goto(f"{url}/u/{stage.service.link('system', name)}")
    await page.get_by_role("button", name="No more of these").click()
    await expect(page.get_by_role("status")).to_be_visible()
    assert await faults_in_all_looks(page) == []


def _brightness(colour: str) -> int:
    return sum(int(part) for part in colour.removeprefix("rgb(").rstrip(")").split(","))
