"""Puts the real parts of a worker together, as the settings say. Nothing is decided here, and nothing sent."""

import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from leaseway_notify.caps import Caps
from leaseway_notify.channels.in_app import Announce, InApp, to_nobody
from leaseway_notify.execute import Execution
from leaseway_notify.gate import Gate
from leaseway_notify.links import LinkOptions, Links
from leaseway_notify.message import ChannelExecutor
from leaseway_notify.policy import Policies
from leaseway_notify.profile import Channel
from leaseway_notify.rules import DEFAULT, Rules
from leaseway_notify.settings import Settings
from leaseway_notify.stores.base import Store

_log = logging.getLogger("leaseway.notify")


@asynccontextmanager
async def execution(
    store: Store,
    settings: Settings,
    *,
    policies: Policies | None = None,
    announce: Announce = to_nobody,
    rules: Rules = DEFAULT,
    clock: Callable[[], float] = time.time,
) -> AsyncIterator[Execution]:
    """What executes deliveries, with the channels that are configured. `announce` tells open pages of an inbox.

    Raises `BadKey` and `ValueError` for what is wrong with keys.
    """
    policies = policies or settings.policies()
    gate = Gate(store, policies, Caps(store, policies, settings.storm), settings.worker.read_types)
    async with AsyncExitStack() as stack:
        channels: dict[Channel, ChannelExecutor] = {"in_app": InApp(store, announce)}
        if "email" in settings.channels:
            channels["email"] = await _email(store, settings, policies, stack)
        if "push" in settings.channels:
            channels["push"] = await _push(store, settings, stack)
        yield Execution(store, gate, channels, rules, clock)


async def _email(store: Store, settings: Settings, policies: Policies, stack: AsyncExitStack) -> ChannelExecutor:
    from leaseway_notify.channels.email import Email, From, Transport
    from leaseway_notify.channels.mail_provider import MailProvider, Provider
    from leaseway_notify.channels.smtp import Smtp, SmtpServer
    from leaseway_notify.outbound import Outbound
    from leaseway_notify.templates import Templates

    said, wait = settings.email, settings.worker.longest_wait / 1000
    if not settings.service.public_url.startswith("https://"):
        _log.warning(
            "links of mails lead to %s: mailboxes unsubscribe in one click by https: alone, see service.public_url",
            settings.service.public_url,
        )
    transport: Transport
    if said.transport == "smtp":
        transport = Smtp(
            SmtpServer(said.host, said.port, said.security, said.username, said.password, said.timeout / 1000)
        )
    else:
        outbound = await stack.enter_async_context(Outbound(anywhere=True))
        transport = MailProvider(Provider(said.provider, said.provider_key or "", said.timeout / 1000, wait), outbound)
    options = LinkOptions(settings.service.public_url, said.tracking, policies, settings.keep.tokens)
    links = Links(store, await store.secret(), options)
    return Email(From(said.sender, said.name, said.product), Templates(said.templates), links, transport)


async def _push(store: Store, settings: Settings, stack: AsyncExitStack) -> ChannelExecutor:
    from leaseway_notify.channels.push import Push, PushOptions
    from leaseway_notify.outbound import Outbound
    from leaseway_notify.vapid import VapidKey

    said = settings.push
    assert said.keys is not None
    outbound = await stack.enter_async_context(Outbound(loopback=said.allow_private))
    options = PushOptions(said.timeout / 1000, said.keep // 1000, settings.worker.longest_wait / 1000)
    return Push(VapidKey.read(said.keys, said.subject), outbound, store.remove_subscription, options)
