"""Sample pictures for the demo: drawn here, the same for the same seed, of several sizes and formats.

Nothing about queues may live here.
"""

from __future__ import annotations

import base64
import io
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from PIL import Image, ImageChops, ImageDraw, ImageFilter

SIZES = ((640, 400), (900, 1200), (1280, 800), (800, 800), (1600, 1000), (1024, 640))
MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "WEBP": "image/webp"}

Colour = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Picture:
    """An encoded picture. `format` is Pillow's word: JPEG, PNG or WEBP."""

    name: str
    format: str
    width: int
    height: int
    data: bytes

    @property
    def url(self) -> str:
        """The picture as a data URL."""
        return f"data:{MEDIA_TYPES[self.format]};base64,{base64.b64encode(self.data).decode()}"


def sample_pictures(seed: int = 1) -> Iterator[Picture]:
    """Pictures without end, each different. The same seed gives the same ones; a data URL has less than 600 kB."""
    motifs = itertools.cycle([(sunset, "JPEG"), (balloons, "PNG"), (waves, "WEBP"), (mosaic, "PNG"), (stars, "JPEG")])
    for number, (motif, file_format), size in zip(itertools.count(1), motifs, itertools.cycle(SIZES), strict=False):
        # Chance for pictures, not for secrets.
        image = motif(size, random.Random(f"{seed}/{number}"))  # noqa: S311
        yield Picture(f"{motif.__name__}-{number}", file_format, *size, _encode(image, file_format))


def sunset(size: tuple[int, int], rng: random.Random) -> Image.Image:
    """A sun over hills, with the grain of a film."""
    width, height = size
    image = _gradient(size, _colour(rng, 0.62, 0.35), _colour(rng, 0.07, 0.95))
    draw = ImageDraw.Draw(image)
    sun, radius = (rng.uniform(0.2, 0.8) * width, height * 0.55), min(size) * 0.14
    draw.circle(sun, radius, (255, 226, 150))
    for depth in range(3):
        ridge = _ridge(size, 0.6 + 0.12 * depth, rng)
        draw.polygon([*ridge, (width, height), (0, height)], (70 - 20 * depth, 46 - 12 * depth, 74 - 18 * depth))
    return ImageChops.add(image, _grain(size, rng), scale=1.0, offset=-24)


def balloons(size: tuple[int, int], rng: random.Random) -> Image.Image:
    """Bright discs on a light sky."""
    image = _gradient(size, (150, 200, 240), (235, 245, 250))
    draw = ImageDraw.Draw(image)
    for _ in range(14):
        centre = rng.uniform(0, size[0]), rng.uniform(0, size[1])
        radius = rng.uniform(0.04, 0.13) * min(size)
        draw.line([centre, (centre[0], centre[1] + 3 * radius)], (90, 90, 110), width=2)
        draw.circle(centre, radius, _colour(rng, rng.random(), 0.95), outline=(255, 255, 255), width=3)
    return image


def waves(size: tuple[int, int], rng: random.Random) -> Image.Image:
    """Bands of sea, one before the other."""
    width, height = size
    image = _gradient(size, (245, 235, 215), (120, 180, 200))
    draw = ImageDraw.Draw(image)
    bands = 9
    for band in range(bands):
        ridge = _ridge(size, 0.25 + 0.08 * band, rng)
        draw.polygon([*ridge, (width, height), (0, height)], (10, 150 - 12 * band, 190 - 13 * band))
    return image.filter(ImageFilter.GaussianBlur(1.2))


def mosaic(size: tuple[int, int], rng: random.Random) -> Image.Image:
    """Tiles of one family of colours."""
    image = Image.new("RGB", size, (30, 30, 36))
    draw = ImageDraw.Draw(image)
    tile, hue = max(size) // 16, rng.random()
    for left, top in itertools.product(range(0, size[0], tile), range(0, size[1], tile)):
        colour = _colour(rng, hue + rng.uniform(-0.12, 0.12), rng.uniform(0.45, 1.0))
        draw.rounded_rectangle([left + 2, top + 2, left + tile - 3, top + tile - 3], tile // 6, colour)
    return image


def stars(size: tuple[int, int], rng: random.Random) -> Image.Image:
    """A night sky, nearly black."""
    image = _gradient(size, (4, 6, 20), (30, 20, 60))
    draw = ImageDraw.Draw(image)
    for _ in range(400):
        light = rng.randint(90, 255)
        draw.circle((rng.uniform(0, size[0]), rng.uniform(0, size[1])), rng.choice([1, 1, 1, 2, 3]), (light,) * 3)
    return image


def _gradient(size: tuple[int, int], top: Colour, bottom: Colour) -> Image.Image:
    ramp = Image.linear_gradient("L").resize(size)
    return Image.composite(Image.new("RGB", size, bottom), Image.new("RGB", size, top), ramp)


def _grain(size: tuple[int, int], rng: random.Random) -> Image.Image:
    """Soft noise between 0 and 47, as an RGB picture."""
    coarse = size[0] // 2, size[1] // 2
    noise = Image.frombytes("L", coarse, rng.randbytes(coarse[0] * coarse[1]))
    return noise.resize(size).point([value * 48 // 256 for value in range(256)]).convert("RGB")


def _ridge(size: tuple[int, int], level: float, rng: random.Random) -> list[tuple[float, float]]:
    """A wavy line from left to right at about `level` of the height."""
    width, height = size
    swell, shift = rng.uniform(1.5, 4), rng.uniform(0, math.tau)
    steps = range(0, width + 20, 10)
    return [(x, height * (level + 0.05 * math.sin(swell * x / width * math.tau + shift))) for x in steps]


def _colour(rng: random.Random, hue: float, value: float) -> Colour:
    """A colour of that hue and value (0 … 1 each) with some chance in its saturation."""
    saturation = rng.uniform(0.55, 0.85)
    red, green, blue = (value * (1 - saturation * _distance(hue, third)) for third in (0.0, 1 / 3, 2 / 3))
    return round(255 * red), round(255 * green), round(255 * blue)


def _distance(hue: float, other: float) -> float:
    """How far two hues are apart on the circle: 0 for the same, 1 for a third of the circle or more."""
    apart = abs((hue - other + 0.5) % 1 - 0.5)
    return min(1.0, apart * 3)


def _encode(image: Image.Image, file_format: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, file_format, quality=82)
    return buffer.getvalue()
