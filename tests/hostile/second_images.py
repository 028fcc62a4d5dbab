"""Pages whose picture is a trap for the one that decodes it."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import chunk, corpus, page, picture, png, sparse, write

DOOR = Door("second: images")


def _pages(folder: Path, *pictures: bytes) -> list[str]:
    """Check a corpus of these pictures, and a sound one."""
    names = [f"images/trap{number}.png" for number in range(len(pictures))]
    for name, data in zip(names, pictures, strict=True):
        write(folder / "red" / name, data)
    return corpus(folder, [page(number, image=name) for number, name in enumerate(names, 2)] + [page(1)])


def _placed(folder: Path) -> tuple[Path, list[str]]:
    arguments = corpus(folder, [page(1, image="images/trap.png"), page(2)])
    return folder / "red" / "images" / "trap.png", arguments


@DOOR.case(0, 3)
def _sizes_beyond_what_a_page_may_have(folder: Path) -> list[str]:
    nothing = zlib.compress(b"\x00" * 100)
    sizes = [(2**31 - 1, 2**31 - 1), (0, 0), (65_501, 1), (1, 65_501), (2**32 - 1, 1), (8001, 8000), (210, 10)]
    return _pages(folder, *[png(width, height, data=nothing) for width, height in sizes])


@DOOR.case(0, 3)
def _eight_pages_of_all_the_pixels_that_are_allowed(folder: Path) -> list[str]:
    return _pages(folder, *[png(8000, 8000, depth=1)] * 8)


@DOOR.case(0, 3)
def _texts_and_profiles_that_unpack_to_a_gigabyte(folder: Path) -> list[str]:
    packer = zlib.compressobj(9)
    bomb = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    bomb += block * 1023
    texts = chunk(b"zTXt", b"Comment\x00\x00" + bomb)
    foreign = chunk(b"iTXt", b"XML:com.adobe.xmp\x00\x01\x00\x00\x00" + bomb)
    return _pages(folder, *[png(8, 8, trap) for trap in (texts, foreign, chunk(b"iCCP", b"icc\x00\x00" + bomb))])


@DOOR.case(0, 3)
def _a_progressive_picture_of_thousands_of_scans(folder: Path) -> list[str]:
    from PIL import Image

    held = io.BytesIO()
    Image.new("L", (6000, 6000), 128).save(held, "JPEG", progressive=True)
    data = held.getvalue()
    last = data.rindex(b"\xff\xda")
    return _pages(folder, data[:last] + data[last:-2] * 3000 + b"\xff\xd9")


@DOOR.case(0, 3)
def _directories_of_a_picture_that_lead_in_circles(folder: Path) -> list[str]:
    from PIL import Image

    entries = [(256, 4, 1, 64), (257, 4, 1, 64), (258, 3, 1, 8), (259, 3, 1, 8), (262, 3, 1, 1), (273, 4, 2**30, 8),
               (279, 4, 2**30, 8), (34665, 4, 1, 8), (330, 4, 1, 8), (34675, 7, 2**31, 8)]  # fmt: skip
    body = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries)
    tiff = b"II*\x00\x08\x00\x00\x00" + body + struct.pack("<I", 8)
    held = io.BytesIO()
    Image.new("RGB", (64, 64)).save(held, "JPEG", exif=b"Exif\x00\x00" + tiff, icc_profile=b"\xff" * 200)
    return _pages(folder, tiff, held.getvalue())


@DOOR.case(0, 3, absent=("marker",))
def _a_program_under_the_name_of_a_picture(folder: Path) -> list[str]:
    postscript = (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 99 99\n%%EndComments\n(marker) (w) file closefile\nshowpage\n"
    )
    vector = b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/><script>1</script></svg>'
    return _pages(folder, postscript, vector, b"%PDF-1.7\n", b"push graphic-context\nimage over 0,0 'x'\n")


@DOOR.case(0, 3)
def _lengths_and_colours_that_lie(folder: Path) -> list[str]:
    sound = png(64, 80)
    long = sound[:33] + struct.pack(">I", 0x7FFFFFFF) + sound[37:]
    palette = png(64, 80, colour=3)
    moving = png(64, 80, chunk(b"acTL", struct.pack(">II", 2**32 - 1, 0)))
    many = png(64, 80, *[chunk(b"tEXt", b"k\x00v")] * 50_000)
    return _pages(folder, long, palette, moving, many, sound[:40], png(64, 80, depth=16, colour=6), b"")


@DOOR.case(0, 3)
def _a_picture_with_twenty_gigabytes_of_holes(folder: Path) -> list[str]:
    place, arguments = _placed(folder)
    sound = png(64, 80)
    sparse(place, 20 << 30, sound[:33] + struct.pack(">I", 0x7FFFFFF0) + b"IDAT", sound[-12:])
    return arguments


@DOOR.case(0, 2, 3)
def _every_byte_of_a_device_as_pages_to_blur(folder: Path) -> list[str]:
    for number, target in enumerate(("/dev/zero", "/dev/full", "/proc/self/mem", "/dev/random", "page.png", ".")):
        (folder / "red" / "images").mkdir(parents=True, exist_ok=True)
        (folder / "red" / "images" / f"trap{number}.png").symlink_to(target)
    corpus(folder, [page(number, image=f"images/trap{number}.png") for number in range(6)])
    picture(folder / "red" / "images" / "page.png")
    return ["memorize", "--red", "red", "--export", "out", "-q"]
