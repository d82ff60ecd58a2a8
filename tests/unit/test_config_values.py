"""The kinds of values in a configuration: what each takes, what it makes of it, and what it says of the rest."""

from ipaddress import ip_network
from pathlib import Path
from urllib.parse import unquote

import pytest

from leaseway_server.config.values import (
    LONGEST,
    Wrong,
    address,
    database_url,
    duration,
    networks,
    origins,
    paths,
    spell,
    store,
    users,
)
from leaseway_server.core.match import MOST_MATCHES
from leaseway_server.store.place import PostgresUrl, SqliteFolder


@pytest.mark.protocol("0.10")
@pytest.mark.parametrize(
    ("text", "length"),
    [("0s", 0), ("500ms", 500), ("90s", 90_000), ("5m", 300_000), ("1h", 3_600_000), ("7d", 604_800_000)],
)
def test_durations(text: str, length: int) -> None:
    assert duration(text) == length


@pytest.mark.parametrize(
    "text", ["", "5", "5 m", "m", "1.5h", "-5m", "5M", "1h30m", "05m", "५m", "5m\n", "36501d", "9" * 99 + "s"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(Wrong):
        duration(text)


@pytest.mark.parametrize("text", ["0ms", "1ms", "1500ms", "90s", "5m", "1h", "25h", "7d", spell(LONGEST)])
def test_durations_are_told_as_they_are_written(text: str) -> None:
    assert spell(duration(text)) == text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("192.0.2.7:65535", ("192.0.2.7", 65_535)),
        ("[::1]:8787", ("::1", 8787)),
        ("[fe80::1%eth0]:1", ("fe80::1%eth0", 1)),
        ("localhost:80", ("localhost", 80)),
        ("box-1.example.com:80", ("box-1.example.com", 80)),
    ],
)
def test_addresses(text: str, found: tuple[str, int]) -> None:
    assert address(text) == found


@pytest.mark.parametrize(
    "text",
    [
        *(
            "8787",
            "localhost",
            ":8787",
            "localhost:",
            "localhost:x",
            "localhost:-1",
            "localhost:１",
            "localhost:123456",
        ),
        *("::1:80", "[]:80", "[127.0.0.1]:80", "[::g]:80", "[::1:80", "*:80", "127.0.0.256:80", "1:2:3", "a b:80"),
        *("http://a:80", "a:80\n"),
    ],
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(Wrong, match=r"^expected a host and a port .* found "):
        address(text)


def test_ports_have_an_end() -> None:
    with pytest.raises(Wrong, match=r'^expected a port of at most 65535, found "a:65536"$'):
        address("a:65536")


@pytest.mark.parametrize("text", ["leaseway-data", "/var/lib/leaseway", "../x", ".", "a:b"])
def test_stores(text: str) -> None:
    assert store(f"sqlite:{text}") == SqliteFolder(Path(text))


USERS = ["", "leaseway@", "leaseway:p%40ss@", ":p@", "l%C3%A9a:@"]
HOSTS = ["", "db", "db.example.com:5432", "[::1]", "[::1]:5432", "a:1,b:2,[::2]", "%2Frun%2Fpostgresql", "10.0.0.1:1"]


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("host", HOSTS)
def test_databases(user: str, host: str) -> None:
    for rest in ("", "/", "/leaseway", "/leaseway?sslmode=require&password=p%2F"):
        for scheme in ("postgres", "postgresql"):
            url = f"{scheme}://{user}{host}{rest}"
            assert store(url) == PostgresUrl(url)
            shown = unquote(user.partition("@")[0].partition(":")[0])
            where = unquote(host) or "localhost"
            assert str(store(url)) == f"postgresql://{shown and shown + '@'}{where}{rest.partition('?')[0]}"


WRONG_URLS = ["db/x@y", "u:pa@ss@db", "u:pa/ss@db/x", "u:1/2@db", "u:1?2@db", "u:1#2@db", "u:p w@db", "a:b", "db:65536"]
WRONG_URLS += ["db/a/b", "db#x", "db/a#x", "u@v@db", "[::1", "::1", "db:", "db\n", "db/\0"]


@pytest.mark.parametrize("rest", WRONG_URLS)
def test_what_is_no_database(rest: str) -> None:
    """Above all a password that is not encoded, a part of which would be taken for something that may be shown."""
    for read in (store, database_url):
        with pytest.raises(Wrong, match=r"^expected the URL of a database, .* in a password @ is written %40") as wrong:
            read(f"postgresql://{rest}")
        assert rest not in str(wrong.value)


@pytest.mark.parametrize(
    "text", ["", "sqlite", "sqlite:", "sqlite:/", "sqlite://data", "sqlite:a\0b", "SQLite:a", "mysql:a"]
)
def test_what_is_no_store(text: str) -> None:
    with pytest.raises(Wrong, match=r'^expected "sqlite:" and a folder'):
        store(text)


@pytest.mark.parametrize(
    "text",
    [
        *("https://app.example.com", "http://localhost:3000", "http://127.0.0.1", "http://[::1]:3000", "https://a:80"),
        *(
            "http://a:443",
            "null",
            "https://xn--mller-kva.example",
            "chrome-extension://abcdef",
            "capacitor://localhost",
        ),
        "https://a_b.example:65535",
    ],
)
def test_origins(text: str) -> None:
    assert origins([text, text]) == {text}


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("https://app.example.com/", "https://app.example.com"),
        ("https://app.example.com/page?x#y", "https://app.example.com"),
        ("https://App.Example.com", "https://app.example.com"),
        ("HTTPS://app.example.com", "https://app.example.com"),
        ("https://app.example.com:443", "https://app.example.com"),
        ("http://app.example.com:80", "http://app.example.com"),
        ("wss://app.example.com", "https://app.example.com"),
        ("ws://localhost:3000", "http://localhost:3000"),
        ("app.example.com", "https://app.example.com"),
        ("https://me:secret@app.example.com", "https://app.example.com"),
        ("https://müller.example", "https://xn--mller-kva.example"),
        ("http://[::1]:3000/", "http://[::1]:3000"),
    ],
)
def test_an_origin_that_was_probably_meant_is_told(text: str, meant: str) -> None:
    with pytest.raises(Wrong) as wrong:
        origins([text])
    assert str(wrong.value).startswith("expected an origin as browsers send it, ")
    assert str(wrong.value).endswith(f'; did you mean "{meant}"?')
    assert origins([meant]) == {meant}


@pytest.mark.parametrize(
    "value",
    ["*", "https://*", "https://*.example.com", "https://", "https://a b", "http://[::1", "https://a:99999", "", 1],
)
def test_what_is_no_origin(value: object) -> None:
    with pytest.raises(Wrong, match=r"^expected an origin as browsers send it[^;]* found [^;]*$"):
        origins([value])


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1", "127.0.0.1/32"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("0.0.0.0/0", "0.0.0.0/0"),
        ("::1", "::1/128"),
        ("fd00::/8", "fd00::/8"),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.1/128"),
    ],
)
def test_networks(text: str, found: str) -> None:
    assert networks([text]) == (ip_network(found),)


@pytest.mark.parametrize(
    "value",
    ["localhost", "*", "", "10.0.0.256", "010.0.0.1", "10.0.0.0/33", "10.0.0.0/08", "10.0.0.0/255.0.0.0", "::/129", 1],
)
def test_what_is_no_network(value: object) -> None:
    with pytest.raises(Wrong, match=r"^expected an IP address or a network [^;]* found [^;]*$"):
        networks([value])


def test_a_network_that_was_probably_meant_is_told() -> None:
    with pytest.raises(Wrong, match=r'found "10\.0\.0\.1/8"; did you mean "10\.0\.0\.0/8"\?$'):
        networks(["10.0.0.1/8"])


@pytest.mark.parametrize("text", ["format", "size.width", "a b", "größe", "$".join("ab"), "0"])
def test_members(text: str) -> None:
    assert paths([text]) == (text,)


@pytest.mark.parametrize("value", ["", ".", "a.", ".a", "a..b", "$lte", "a.$lte", "a\n", "x" * 201, 1, None])
def test_what_is_no_member(value: object) -> None:
    with pytest.raises(Wrong, match=r'^expected a member such as "format" or "size.width", found '):
        paths([value])


def test_members_are_few_and_different() -> None:
    many = [f"a{index}" for index in range(MOST_MATCHES)]
    assert paths(many) == tuple(many)
    with pytest.raises(Wrong, match=f"^expected a list of at most {MOST_MATCHES} members "):
        paths([*many, "b"])
    with pytest.raises(Wrong, match=r'^expected each member once, found \["a", "a"\]$'):
        paths(["a", "a"])


def test_all_that_is_wrong_with_a_list_is_told() -> None:
    with pytest.raises(Wrong) as wrong:
        users(["alice", 1, "", 1])
    assert [text.rpartition("found ")[2] for text in wrong.value.args] == ["1", '""']
