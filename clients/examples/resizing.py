"""The picture work of the queue `resize`: data URL in, smaller picture, its palette and its luminance out.

Only pictures: nothing about queues may live here.
"""

from __future__ import annotations

import base64
import binascii
import io
import struct
import zlib
from typing import Any

from PIL import Image, ImageOps

#: The formats of the queue's schema: Pillow's word, the media type, and how it is written.
FORMATS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "jpg": ("JPEG", "image/jpeg", {"quality": 85}),
    "png": ("PNG", "image/png", {"optimize": True}),
    "webp": ("WEBP", "image/webp", {"quality": 80}),
}
#: More would take too much memory: a picture of 10 kB can claim to have 10,000 megapixels.
MAX_PIXELS = 32_000_000
PALETTE_COLOURS = 6
REC_709 = (0.2126, 0.7152, 0.0722)
#: What decoders raise for bytes that are no picture, or only the beginning of one.
UNREADABLE = (OSError, SyntaxError, ValueError, EOFError, struct.error, zlib.error, Image.DecompressionBombError)


class BadPicture(Exception):
    """This picture cannot be resized, however often it is tried."""


def decode(url: str) -> Image.Image:
    """The upright picture in a data URL, as RGB, or RGBA where it has transparent parts. Raises `BadPicture`."""
    try:
        data = base64.b64decode(url.partition(",")[2], validate=True)
    except binascii.Error as error:
        raise BadPicture(f"the data URL is not base64: {error}") from None
    try:
        file = Image.open(io.BytesIO(data), formats=[kind for kind, _, _ in FORMATS.values()])
        _check_size(file.width, file.height)  # Before the pixels are read.
        image = ImageOps.exif_transpose(file)
    except UNREADABLE as error:
        raise BadPicture(f"this is no readable PNG, JPEG or WebP picture ({type(error).__name__})") from None
    if image.mode.startswith("I"):  # 16 bits of grey.
        image = image.point(lambda value: value / 256).convert("L")
    return image.convert("RGBA" if image.has_transparency_data else "RGB")


def scale(image: Image.Image, width: int) -> Image.Image:
    """The picture with that width; the height keeps the ratio. Raises `BadPicture`."""
    height = max(1, round(image.height * width / image.width))
    _check_size(width, height)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def palette(image: Image.Image) -> list[str]:
    """The main colours as `#rrggbb`, the most frequent first."""
    small = opaque(image)
    small.thumbnail((160, 160))
    reduced = small.quantize(PALETTE_COLOURS)
    counts = reduced.getcolors()
    assert counts is not None  # A palette picture has at most 256 colours.
    table = reduced.getpalette() or []
    indexes = [index for _, index in sorted(counts, reverse=True) if isinstance(index, int)]
    colours = ("#{:02x}{:02x}{:02x}".format(*table[3 * index : 3 * index + 3]) for index in indexes)
    return list(dict.fromkeys(colours))


def luminance(image: Image.Image) -> float:
    """The mean relative luminance: 0 is black, 1 is white.

    Rec. 709's weights on linear light. It is linear, so the mean of the picture is the weighted mean of its
    channels, and their histograms are enough.
    """
    counts = opaque(image).histogram()
    pixels = image.width * image.height
    means = (_mean_light(counts[256 * channel : 256 * (channel + 1)], pixels) for channel in range(3))
    return round(min(1.0, sum(weight * mean for weight, mean in zip(REC_709, means, strict=True))), 4)


def encode(image: Image.Image, wanted: str) -> str:
    """The picture as a data URL; `wanted` is `jpg`, `png` or `webp`."""
    kind, media_type, options = FORMATS[wanted]
    buffer = io.BytesIO()
    (opaque(image) if wanted == "jpg" else image).save(buffer, kind, **options)
    return f"data:{media_type};base64,{base64.b64encode(buffer.getvalue()).decode()}"


def opaque(image: Image.Image) -> Image.Image:
    """A copy without transparency: on white, as a page would show it."""
    ground = Image.new("RGB", image.size, (255, 255, 255))
    ground.paste(image, mask=image.getchannel("A") if image.mode == "RGBA" else None)
    return ground


def _mean_light(counts: list[int], pixels: int) -> float:
    return sum(count * _linear(value / 255) for value, count in enumerate(counts)) / pixels


def _linear(value: float) -> float:
    """sRGB's transfer function backwards (IEC 61966-2-1)."""
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def _check_size(width: int, height: int) -> None:
    if width * height > MAX_PIXELS:
        raise BadPicture(f"{width} × {height} pixels are too many: {MAX_PIXELS // 1_000_000} million are allowed")
