"""The dashboard in a real browser: where its parts are, as a person finds them, by their names."""

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Browser, Locator, WebSocket, expect

from support.browser import Tab, new_tab

PATIENCE_MS = 15_000
EVIL = "<script>document.title = 1</script><img src=x onerror='document.title = 1'>"
"""A text that must stay one, wherever it is shown."""


@dataclass
class Dashboard:
    """A tab that shows it. `asked` are the addresses that the page asked for, sockets too; `pushes` counts frames.

    `hellos` are what the page said of itself, by the address of the socket.
    """

    tab: Tab
    base_url: str
    asked: list[str] = field(default_factory=list)
    pushes: list[str | bytes] = field(default_factory=list)
    hellos: list[tuple[str, Any]] = field(default_factory=list)

    async def go(self, place: str = "") -> None:
        """Loads the page, whatever was there before."""
        await self.tab.page.goto("about:blank")
        await self.tab.page.goto(f"{self.base_url}/#{place}")

    async def open(self, place: str) -> None:
        """Loads the page of a queue or an item, and waits until it is live."""
        await self.go(place)
        await expect(self.connection).to_have_attribute("data-state", "open")

    @property
    def complaints(self) -> list[str]:
        """Errors and violations of the policy. That the server refused a request is an answer, which the page tells."""
        return [each for each in self.tab.complaints if not each.startswith("Failed to load resource: the server")]

    @property
    def connection(self) -> Locator:
        """What is told of the connection."""
        return self.tab.page.locator(".connection")

    @property
    def rows(self) -> Locator:
        """The items that are listed."""
        return self.tab.page.locator("tr[data-id]")

    @property
    def sheet(self) -> Locator:
        """The item that is shown in full."""
        return self.tab.page.locator("dialog.side")

    @property
    def posting(self) -> Locator:
        """The way to post by hand."""
        return self.tab.page.locator("#posting")

    @property
    def badge(self) -> Locator:
        """What the item that is shown in full is."""
        return self.sheet.locator("h2 .badge")

    @property
    def workers(self) -> Locator:
        """Who is connected."""
        return self.tab.page.locator("section[aria-labelledby=workers] tbody tr")

    def filter(self, name: str) -> Locator:
        """A field of the filter of the list."""
        return self.tab.page.locator(f".filters [name={name}]")

    async def listed(self) -> set[str]:
        """The ids of the rows."""
        return set(await self.rows.evaluate_all("rows => rows.map((row) => row.dataset.id)"))

    async def act(self, name: str, *answers: str) -> None:
        """What is done to the item that is shown in full, and what is said to the question that comes."""
        await self.sheet.get_by_role("button", name=name, exact=True).click()
        for answer in answers:
            await self.button(answer).click()

    def part(self, name: str) -> Locator:
        """A part of the sheet."""
        return self.sheet.locator(f"[data-part={name}]")

    def button(self, name: str) -> Locator:
        """A button, by what is on it."""
        return self.tab.page.get_by_role("button", name=name, exact=True)

    def figure(self, name: str) -> Locator:
        """One of the figures."""
        return self.tab.page.locator(".figure").filter(has_text=name).locator("dd")

    async def expect_no_markup(self) -> None:
        """Nothing that `EVIL` says became a part of the page, or was done."""
        assert await self.tab.page.locator("script:not([type=module]), img[src=x]").count() == 0
        assert await self.tab.page.title() != "1"

    async def sign_in(self, token: str, *, keep: bool = False) -> None:
        """Where a token is asked for."""
        page = self.tab.page
        await page.get_by_label("Token").fill(token)
        await page.get_by_label("Keep it in this tab").set_checked(keep)
        await page.locator("form").get_by_role("button", name="Sign in").click()

    async def open_posting(self) -> None:
        """The way to post by hand, which is open already where the queue never had an item."""
        if await self.posting.get_attribute("open") is None:
            await self.posting.locator("summary").click()

    async def close_item(self) -> None:
        """Closes the sheet of an item. Until that is done, what lies below takes no text."""
        await self.button("Close").click()
        await expect(self.tab.page.locator("dialog[open]")).to_have_count(0)

    async def post_json(self, text: str) -> None:
        """By hand; `text` may be no JSON."""
        await self.open_posting()
        await self.posting.locator("textarea").fill(text)
        await self.button("Post the item").click()


async def dashboard(browser: Browser, base_url: str) -> Dashboard:
    """A fresh tab for the dashboard of the server at that address; it has no page yet."""
    expect.set_options(timeout=PATIENCE_MS)
    shown = Dashboard(await new_tab(browser), base_url)
    page = shown.tab.page
    page.on("request", lambda request: shown.asked.append(request.url))

    def on_socket(socket: WebSocket) -> None:
        shown.asked.append(socket.url)
        socket.on("framereceived", lambda frame: shown.pushes.append(frame))
        socket.on("framesent", lambda frame: on_said(socket, json.loads(frame)))

    def on_said(socket: WebSocket, message: Any) -> None:
        if "hello" in message:
            shown.hellos.append((urlsplit(socket.url).path, message["hello"]))

    page.on("websocket", on_socket)
    return shown
