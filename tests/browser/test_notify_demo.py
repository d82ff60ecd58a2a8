"""The page of the demo, in a real browser: by keyboard, while it looks for news twice a second."""

from pathlib import Path

import aiohttp
import pytest
from playwright.async_api import Browser, expect

from leaseway_notify.delivery import Change
from leaseway_notify.demo.application import READER, Application
from leaseway_notify.demo.browser import Browser as Keys
from leaseway_notify.demo.mailbox import Mail, Mailbox
from leaseway_notify.demo.show import page as served
from leaseway_notify.serving import listen
from support.axe import faults_in_all_looks
from support.browser import new_tab
from support.notify_service import SECRET, TOKEN, notify_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_retry_is_pressed_by_keyboard_however_often_the_page_looks(tmp_path: Path, browser: Browser) -> None:
    listener = listen("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.getsockname()[1]}"
    async with (
        notify_service(tmp_path, service={"origins": [address]}) as service,
        Mailbox() as mailbox,
        aiohttp.ClientSession() as session,
    ):
        application = Application(service.url, address, (TOKEN, SECRET), mailbox, Keys(), session)
        dead = (await service.notify(recipient=READER))["deliveries"][0]["id"]
        await service.store.begin(dead, 1, service.clock())
        await service.store.change(dead, 1, Change("dead", error="it is dead"), service.clock())
        mailbox.mails.append(Mail("ada@example.com", "A long one", "line\n" * 50, ""))
        async with served(application, listener):
            tab = await new_tab(browser)
            page = tab.page
            await page.goto(address)
            retry = page.get_by_role("button", name="Retry")
            await retry.focus()
            for _ in range(2):
                async with page.expect_response("**/state"):
                    pass
            await expect(retry).to_be_focused()
            assert await faults_in_all_looks(page) == []
            await page.keyboard.press("Enter")
            await expect(retry).to_have_count(0)
            found = await service.store.delivery(dead)
            assert found is not None
            assert found.delivery.round == 1
            await page.context.close()
