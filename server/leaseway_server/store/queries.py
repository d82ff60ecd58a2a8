"""Named statements from `.sql` files: `-- name: pick` opens one, the next name or the end closes it."""

import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n", re.MULTILINE)


def load_queries(package: str, name: str) -> dict[str, str]:
    """The statements of a file of `package`, by name, without what is said about them."""
    text = files(package).joinpath(name).read_text(encoding="utf-8")
    parts = _NAME.split(text)
    texts = {parts[at]: _COMMENT.sub("", parts[at + 1]) for at in range(1, len(parts), 2)}
    return {name: statement.strip().rstrip(";") for name, statement in texts.items()}


def load_migrations(package: str) -> list[tuple[int, str]]:
    """The numbered scripts `0001_….sql` in the package's folder `migrations`, in order: (number, script)."""
    folder = files(package).joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), folder.joinpath(name).read_text(encoding="utf-8")) for name in names]
