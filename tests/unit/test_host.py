"""Which names are this server's, by where it stands, what is open on it, and which sites it lists."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.types import Scope

from leaseway_server.core.access import Grants
from leaseway_server.core.errors import Misdirected
from leaseway_server.web.host import check_host
from leaseway_server.web.site import Site
from support.clock import ManualClock
from support.tokens import TokenFile

LISTED: Final = frozenset({"https://app.example.com", "http://box.lan:8080", "null", "https://[2001:db8::1]"})
OPEN: Final = (Grants(), Grants(post="open", fetch=frozenset(), work=frozenset()))
CLOSED: Final = (Grants(), Grants(post=frozenset({"alice"})))
Sites = Callable[..., Site]


class Granting(Site):
    """A site of queues of which only the rights are there."""

    given: tuple[Grants, ...] = ()

    @property
    def grants(self) -> dict[str, Grants]:
        return {str(number): grants for number, grants in enumerate(self.given)}


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[Sites]:
    with TokenFile(tmp_path) as tokens:

        def site(given: tuple[Grants, ...] = OPEN, origins: frozenset[str] = LISTED, **more: Any) -> Site:
            made = Granting({}, tokens.access, ManualClock(), allowed_origins=origins, **more)
            made.given = given
            return made

        yield site


def scope(*hosts: str, **headers: str) -> Scope:
    pairs = [("host", host) for host in hosts] + list(headers.items())
    return {"headers": [(name.encode(), value.encode("latin-1")) for name, value in pairs]}


def passes(site: Site, asked: Scope) -> bool:
    try:
        check_host(asked, site)
    except Misdirected:
        return False
    return True


# The name in `Host`, and whether it is ours: without listed sites, and with some.
NAMES: Final = """
127.0.0.1:8787            yes yes
127.0.0.1                 yes yes
127.8.9.10:1              yes yes
[::1]:8787                yes yes
[::1]                     yes yes
localhost                 yes yes
LocalHost:8787            yes yes
demo.localhost:8787       yes yes
app.example.com           no  yes
APP.example.com           no  yes
app.example.com:443       no  yes
app.example.com:8443      no  yes
box.lan                   no  yes
box.lan:8080              no  yes
[2001:db8::1]             no  yes
example.com               no  no
sub.app.example.com       no  no
app.example.com.evil.test no  no
evil.example:8787         no  no
127.0.0.1.evil.example    no  no
localhost.evil.example    no  no
notlocalhost              no  no
192.0.2.7:8787            no  no
0.0.0.0:8787              no  no
[::]:8787                 no  no
2130706433                no  no
0x7f000001                no  no
null                      no  no
[                         no  no
[::1                      no  no
x:y:z                     no  no
:8787                     no  no
ÿ                         no  no
"""


@pytest.mark.parametrize("row", NAMES.strip().splitlines())
def test_which_names_are_ours(row: str, sites: Sites) -> None:
    host, bare, listed = row.split()
    assert passes(sites(origins=frozenset()), scope(host)) is (bare == "yes")
    assert passes(sites(), scope(host)) is (listed == "yes")


def test_what_is_said_fits_into_the_close_of_a_socket(sites: Sites) -> None:
    with pytest.raises(Misdirected) as refused:
        check_host(scope("evil.example"), sites())
    assert len(str(refused.value)) <= 123
    assert (refused.value.status, refused.value.code, refused.value.close) == (421, "not-allowed", 4403)


def test_no_name_and_two_names_are_none(sites: Sites) -> None:
    for hosts in ((), ("",), ("localhost", "localhost"), ("localhost", "evil.example")):
        assert not passes(sites(), scope(*hosts))


@pytest.mark.parametrize(
    "name", ["x-forwarded-host", "x-forwarded-for", "forwarded", "via", "x-host", "x-forwarded-proto"]
)
def test_what_a_page_may_write_itself_makes_no_name_ours(name: str, sites: Sites) -> None:
    assert not passes(sites(), scope("evil.example", **{name: "localhost"}))


def test_a_page_that_was_judged_by_its_origin_is_not_judged_again(sites: Sites) -> None:
    assert passes(sites(), scope("task.example.com", origin="https://task.example.com"))


def test_it_is_asked_where_only_this_machine_and_its_browsers_come_and_something_is_open(sites: Sites) -> None:
    for given, on_loopback, asked in (
        (OPEN, True, True),
        (OPEN, False, False),
        (CLOSED, True, False),
        (CLOSED, False, False),
        ((Grants(admin="open"),), True, True),
        ((), True, False),
    ):
        assert passes(sites(given, on_loopback=on_loopback), scope("evil.example")) is not asked
