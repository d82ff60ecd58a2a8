"""The picture work of the examples: what the worker says about a picture is true of it."""

import base64
import io
from typing import Any

import pytest
from PIL import Image

from support.examples import load_example


@pytest.fixture
def resizing(monkeypatch: pytest.MonkeyPatch) -> Any:
    return load_example("resizing", monkeypatch)


def data_url(image: Image.Image, kind: str = "PNG") -> str:
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return f"data:image/{kind.lower()};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@pytest.mark.parametrize(("wanted", "kind"), [("jpg", "JPEG"), ("png", "PNG"), ("webp", "WEBP")])
def test_the_result_has_the_width_the_ratio_and_the_format(resizing: Any, wanted: str, kind: str) -> None:
    small = resizing.scale(resizing.decode(data_url(Image.new("RGB", (300, 200)))), 75)
    result = Image.open(io.BytesIO(base64.b64decode(resizing.encode(small, wanted).partition(",")[2])))
    assert (result.size, result.format) == ((75, 50), kind)


@pytest.mark.parametrize(
    ("colour", "luminance"),
    [((0, 0, 0), 0.0), ((255, 255, 255), 1.0), ((255, 0, 0), 0.2126), ((0, 255, 0), 0.7152), ((188, 188, 188), 0.5029)],
)
def test_luminance_is_rec_709_on_linear_light(resizing: Any, colour: tuple[int, int, int], luminance: float) -> None:
    assert resizing.luminance(Image.new("RGB", (30, 20), colour)) == luminance


def test_the_palette_begins_with_the_most_frequent_colour(resizing: Any) -> None:
    image = Image.new("RGB", (100, 100), (0, 0, 255))
    image.paste((255, 0, 0), (0, 0, 100, 30))
    assert resizing.palette(image) == ["#0000ff", "#ff0000"]


def test_transparency_is_kept_where_the_format_can_and_white_where_it_cannot(resizing: Any) -> None:
    clear = resizing.decode(data_url(Image.new("RGBA", (10, 10), (0, 0, 0, 0))))
    assert resizing.decode(resizing.encode(clear, "png")).getpixel((5, 5))[3] == 0
    assert min(resizing.decode(resizing.encode(clear, "jpg")).getpixel((5, 5))) > 250


def test_a_picture_is_turned_as_its_camera_says(resizing: Any) -> None:
    buffer = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6  # A quarter turn.
    Image.new("RGB", (40, 20)).save(buffer, "JPEG", exif=exif)
    url = f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    assert resizing.decode(url).size == (20, 40)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("data:image/png;base64,A", "not base64"),
        ("data:image/png;base64," + base64.b64encode(b"no picture").decode(), "no readable"),
        (data_url(Image.new("RGB", (64, 64)))[:80] + "====", "no"),
        (data_url(Image.new("1", (8000, 8000))), "too many"),
    ],
)
def test_a_bad_picture_is_refused_with_a_reason(resizing: Any, url: str, why: str) -> None:
    with pytest.raises(resizing.BadPicture, match=why):
        resizing.decode(url)


def test_a_narrow_picture_may_not_become_a_huge_one(resizing: Any) -> None:
    with pytest.raises(resizing.BadPicture, match="too many"):
        resizing.scale(Image.new("RGB", (1, 100)), 4096)
