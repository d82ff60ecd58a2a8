"""The folders of schemas that `leaseway.toml` names: what is read of them, and how mistakes in them are told."""

import json
from pathlib import Path

import pytest

from leaseway_schemas import example_folder
from leaseway_server.config import ConfigRefused, load_config
from leaseway_server.core.queue import Schemas


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a queue's schemas, empty, beside the file that names it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schemas").mkdir()
    (tmp_path / "leaseway.toml").write_text('[queues.resize]\nschemas = "schemas"')
    return tmp_path / "schemas"


def schemas() -> Schemas:
    return load_config(None).queues["resize"].queue.schemas


def faults() -> list[str]:
    with pytest.raises(ConfigRefused) as refused:
        load_config(None)
    return [str(fault) for fault in refused.value.faults]


def test_the_example_queue_is_read(folder: Path) -> None:
    Path("leaseway.toml").write_text(f"[queues.resize]\nschemas = {json.dumps(str(example_folder('resize')))}")
    documents = schemas().documents()
    assert all(isinstance(document, dict) for document in documents.values())


def test_each_schema_is_optional(folder: Path) -> None:
    (folder / "result.json").write_text('{"type": "object"}')
    documents = schemas().documents()
    assert documents == {"item": None, "progress": None, "result": {"type": "object"}}


def test_a_schema_may_refer_to_the_files_beside_it(folder: Path) -> None:
    (folder / "item.json").write_text('{"properties": {"width": {"$ref": "sizes.json#/$defs/width"}}}')
    (folder / "sizes.json").write_text('{"$defs": {"width": {"type": "integer"}}}')
    schema = schemas().item
    assert schema is not None
    assert not schema.check({"width": 1})
    assert schema.check({"width": "1"})


def test_a_reference_that_leads_nowhere(folder: Path) -> None:
    (folder / "item.json").write_text('{"$ref": "sizes.json"}')
    (fault,) = faults()
    assert fault.startswith("schemas/item.json: ")


def test_an_invalid_schema_is_told_with_its_pointer(folder: Path) -> None:
    (folder / "item.json").write_text('{"properties": {"width": {"type": "nonsense"}}}')
    (folder / "result.json").write_text('{"minimum": "1"}')
    first, second = faults()
    assert first.startswith("schemas/item.json: /properties/width/type: ")
    assert second.startswith("schemas/result.json: /minimum: ")


def test_a_format_that_is_not_asserted_is_told_with_its_place_and_what_to_use(folder: Path) -> None:
    (folder / "item.json").write_text('{"properties": {"to": {"format": "idn-email"}}}')
    (folder / "result.json").write_text('{"items": {"format": "datetime"}}')
    item, result = faults()
    assert item.startswith("schemas/item.json: /properties/to/format: format idn-email is not asserted: ")
    assert item.endswith("Use email, or pattern")
    assert result.startswith("schemas/result.json: /items/format: unknown format 'datetime': use pattern, or one of ")


def test_a_mistake_in_a_file_beside_is_told_once_and_as_that_files(folder: Path) -> None:
    for name in ("item.json", "result.json"):
        (folder / name).write_text('{"$ref": "sizes.json#/$defs/a%23b"}')
    (folder / "sizes.json").write_text('{"$defs": {"a#b": {"type": "nonsense"}}}')
    (fault,) = faults()
    assert fault.startswith("schemas/sizes.json: /$defs/a#b/type: ")


def test_files_that_are_not_json_are_told_beside_the_other_mistakes(folder: Path) -> None:
    (folder / "item.json").write_text('{"type": }')
    (folder / "sizes.json").mkdir()
    (folder / "progress.json").write_text('{"type": "nonsense"}')
    sizes, item, progress = faults()
    assert item.startswith("schemas/item.json: ")
    assert "line 1, column 10" in item
    assert sizes == "schemas/sizes.json: cannot be read: Is a directory"
    assert progress.startswith("schemas/progress.json: /type: ")


def test_a_folder_that_is_not_there(folder: Path) -> None:
    at = "leaseway.toml: queues.resize.schemas: expected a folder to read, and there is none at schemas"
    folder.rmdir()
    assert faults() == [f"{at}: No such file or directory"]
    folder.write_text("")
    assert faults() == [f"{at}: Not a directory"]


def test_a_folder_without_schemas_is_not_the_one_that_was_meant(folder: Path) -> None:
    (folder / "sizes.json").write_text("{}")
    assert faults() == [
        "leaseway.toml: queues.resize.schemas: expected item.json, progress.json or result.json, and none is in schemas"
    ]


def test_what_changes_in_the_folder_can_be_told(folder: Path) -> None:
    def files() -> str:
        return load_config(None).queues["resize"].schema_files

    (folder / "item.json").write_text('{"$ref": "sizes.json"}')
    (folder / "sizes.json").write_text("{}")
    before = files()
    assert files() == before
    (folder / "notes.txt").write_text("not a schema")
    assert files() == before
    (folder / "sizes.json").write_text("true")
    assert files() != before
