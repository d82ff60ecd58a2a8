"""axe-core in the pages under test: what keeps people from using them, by rule and place.

It comes from npm beside TypeScript. The browser itself puts it in, so that the page's policy stays as it is.
"""

from typing import Any, Final

from playwright.async_api import Page

from support.node import CLIENT, missing

SOURCE: Final = CLIENT / "node_modules/axe-core/axe.min.js"
LOOKS: Final[dict[str, tuple[Any, int]]] = {"light": ("light", 1120), "dark, on a phone": ("dark", 360)}
"""How a page is looked at: the colours that the system asks for, and how many pixels wide it is."""


async def faults_in(page: Page) -> list[str]:
    """What axe finds in the page as it is now: rule, impact, where, and what is wrong. Skips where axe is not there."""
    if not SOURCE.exists():
        missing("axe-core is not there: `make types` fetches it with npm")
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(SOURCE.read_text())
    rules = (await page.evaluate("axe.run({ resultTypes: ['violations'] })"))["violations"]
    return [
        f"{rule['id']} ({rule['impact']}): {node['target']} {node['failureSummary']}"
        for rule in rules
        for node in rule["nodes"]
    ]


async def faults_in_all_looks(page: Page) -> list[str]:
    """The same in light colours, and in dark ones on a phone."""
    found = []
    for look, (colours, width) in LOOKS.items():
        await page.emulate_media(color_scheme=colours)
        await page.set_viewport_size({"width": width, "height": 800})
        found += [f"{look}: {fault}" for fault in await faults_in(page)]
    return found
