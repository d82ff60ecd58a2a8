"""A queue's folder of schemas: `item.json`, `progress.json`, `result.json`, and the files beside them (PROTOCOL.md §8).

Nothing else is read, whatever the schemas refer to. What a schema may say is `core.schema`'s.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from leaseway_server.config.table import Fault, Table
from leaseway_server.core.jsontext import Json, JsonRefused, parse
from leaseway_server.core.queue import Schemas
from leaseway_server.core.schema import Schema, SchemaRefused

KINDS: Final = ("item", "progress", "result")


@dataclass(frozen=True, slots=True)
class SchemaFolder:
    """One folder; `faults` gathers what is wrong with its files, and `table` is told what is wrong with itself."""

    folder: Path
    table: Table
    faults: list[Fault]

    def read(self) -> tuple[Schemas, str]:
        """The compiled schemas, and a hash of all the files."""
        try:
            files = sorted(file for file in self.folder.iterdir() if file.suffix == ".json")
        except OSError as error:
            self.table.refuse(
                "schemas", f"expected a folder to read, and there is none at {self.folder}: {error.strerror}"
            )
            return Schemas(), ""
        if not any(file.stem in KINDS for file in files):
            missing = f"expected item.json, progress.json or result.json, and none is in {self.folder}"
            self.table.refuse("schemas", missing)
        texts = self._texts(files)
        documents = self._documents(texts)
        schemas = Schemas(**{kind: self._schema(f"{kind}.json", documents) for kind in KINDS})
        return schemas, sha256(repr(texts).encode()).hexdigest()

    def _texts(self, files: Iterable[Path]) -> dict[str, bytes]:
        texts = {}
        for file in files:
            try:
                texts[file.name] = file.read_bytes()
            except OSError as error:
                self.faults.append(Fault(str(file), "", f"cannot be read: {error.strerror}"))
        return texts

    def _documents(self, texts: Mapping[str, bytes]) -> dict[str, Json]:
        """What the files hold, by name; those that are not JSON are told and left out."""
        documents = {}
        for name, text in texts.items():
            try:
                documents[name] = parse(text)
            except JsonRefused as refused:
                self.faults.append(Fault(str(self.folder / name), "", str(refused)))
        return documents

    def _schema(self, name: str, documents: Mapping[str, Json]) -> Schema | None:
        """The compiled schema; None where there is none, or it is refused and told. It may refer to its neighbours."""
        if name not in documents:
            return None
        neighbours = {other: document for other, document in documents.items() if other != name}
        try:
            return Schema.compile(documents[name], neighbours)
        except SchemaRefused as refused:
            other, in_other, pointer = refused.pointer.partition("#")
            fault = (
                Fault(str(self.folder / other), pointer, str(refused))
                if in_other and other in neighbours
                else Fault(str(self.folder / name), refused.pointer, str(refused))
            )
            if fault not in self.faults:  # Its neighbours may have told it too.
                self.faults.append(fault)
            return None
