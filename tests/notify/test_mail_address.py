"""Addresses of mails: which are some, and that none is taken for a recipient that no mail can go to."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from leaseway_notify.cli import ENDED_BADLY, main
from leaseway_notify.errors import Refused
from leaseway_notify.mail_address import check_mail_address, mail_address
from leaseway_notify.stores.sqlite import open_sqlite
from support.addresses import NO_ADDRESSES
from support.notify_service import notify_service, problem


@pytest.mark.parametrize("address", ["ada@example.org", "ada+x.y_z@sub.example.org", "o'neil@example.org", "a@b.c"])
def test_what_is_an_address_stays_as_it_is(address: str) -> None:
    assert mail_address(address) == address
    check_mail_address(address)


def test_a_domain_in_other_letters_is_the_one_that_was_meant() -> None:
    assert mail_address("ada@faß.example") == "ada@xn--fa-hia.example"  # And not fass.example.
    assert mail_address("ada@BÜCHER.example") == "ada@xn--bcher-kva.example"


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_what_is_none_is_refused(address: str) -> None:
    with pytest.raises(Refused, match=r"address: expected") as refused:
        check_mail_address(address)
    assert refused.value.path == "address"
    check_mail_address("")  # There are recipients without one.


async def test_no_profile_with_such_an_address_is_saved_over_http(tmp_path: Path) -> None:
    async with notify_service(tmp_path) as service:
        for address in NO_ADDRESSES:
            problem(await service.programs.put("/profiles/bea", json={"address": address}), 422, "schema", "address")
        assert await service.store.profile("bea") is None
        for address in ("bea@example.com", ""):
            answer = await service.programs.put("/profiles/bea", json={"address": address})
            assert answer.json()["address"] == address


async def test_nor_by_the_command(tmp_path: Path) -> None:
    file = tmp_path / "notify.toml"
    file.write_text("")
    async with await open_sqlite(tmp_path / "notify.db") as store:
        for address in NO_ADDRESSES:
            words = ["profile", "bea", "--address", address, "--config", str(file)]
            ended = await asyncio.to_thread(CliRunner().invoke, main, words)
            assert ended.exit_code == ENDED_BADLY
            assert "address: expected" in ended.stderr
        assert await store.profile("bea") is None
