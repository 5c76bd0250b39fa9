"""Files of photos whose pixels are all there, without what is wrong beside them.

Browsers show a PNG whose texts are too large or have a wrong checksum, and a JPEG that ends without the mark of its
end. Pillow refuses both. Its limits stay as they are: what is over a limit is left out, and never unpacked.
"""

import io
import re
import zlib
from collections.abc import Collection, Iterator

from PIL import Image

PNG = b"\x89PNG\r\n\x1a\n"
JPEG = b"\xff\xd8"
RESTART = re.compile(rb"\xff[\xd0-\xd7]")  # marks that part the pixels of a scan; their numbers go round
END_OF_JPEG = b"\xff\xd9"
FRAMES = (0xC0, 0xC1, 0xC2)  # markers of the segment that names the components: baseline, extended, progressive
SCAN = 0xDA
MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]", re.DOTALL)  # but those within the pixels of a scan
TEXTS = (b"tEXt", b"zTXt", b"iTXt")
# Kinds of chunks that are given up besides those with a wrong checksum, until the rest of a PNG can be decoded. The ICC
# profile is the last, since it changes how pixels look.
STEPS = ((), TEXTS, (*TEXTS, b"iCCP"))
# What a JPEG's decoder reads as pixels, each time as others, wherever pixels are missing.
FILLERS = [bytes([number]) * 256 for number in (0x55, 0xAA, 0xF0, 0x33)]


def mended(content: bytes) -> Iterator[tuple[bytes, str]]:
    """Files to try in the place of one that cannot be decoded, and what each leaves out."""
    if content.startswith(PNG):
        for given_up in STEPS:
            yield _sound_chunks(content, given_up)
    elif content.startswith(JPEG) and _has_all_scans(content):
        content = content.rstrip(b"\xff")  # half of a mark, or of a byte of the pixels
        last_restart = (RESTART.findall(content) or [b"\xff\xd7"])[-1][1]
        restart = bytes((0xFF, 0xD0 + (last_restart + 1) % 8))
        pixels = _pixels(content + END_OF_JPEG)
        # So no pixel is read from what is behind the content.
        if all(_pixels(content + filler + END_OF_JPEG) == pixels for filler in (restart + FILLERS[0], *FILLERS)):
            yield content + END_OF_JPEG, "the mark of its end"


def _sound_chunks(content: bytes, given_up: Collection[bytes]) -> tuple[bytes, str]:
    """A PNG without the side chunks that are given up or have a wrong checksum, and their names."""
    kept = [PNG]
    left_out = []
    at = len(PNG)
    while at + 12 <= len(content):
        end = at + 12 + int.from_bytes(content[at : at + 4])
        kind = content[at + 4 : at + 8]
        critical = kind[:1].isupper()
        checksum = int.from_bytes(content[end - 4 : end])
        if critical or (kind not in given_up and zlib.crc32(content[at + 4 : end - 4]) == checksum):
            kept.append(content[at:end])
        else:
            left_out.append(kind.decode("latin-1"))
        at = end
    return b"".join(kept), ", ".join(dict.fromkeys(left_out))


def _has_all_scans(jpeg: bytes) -> bool:
    """Whether the last scan of a JPEG has begun: each component has all coefficients, to their last bit."""
    missing: dict[int, set[int]] = {}  # by component
    for marker, segment in _segments(jpeg):
        if marker in FRAMES:
            missing = {component: set(range(64)) for component in segment[8::3]}
        elif marker == SCAN:
            first, last, bits = segment[-3:]
            for component in segment[3:-3:2]:
                if bits % 16 == 0:  # no bit is left for a later scan
                    missing[component] -= set(range(first, last + 1))
    return bool(missing) and not any(missing.values())


def _segments(jpeg: bytes) -> Iterator[tuple[int, bytes]]:
    """The marker and the bytes of each segment of a JPEG; the pixels behind a scan's segment are passed over."""
    at = len(JPEG)
    while len(jpeg) >= at + 4:
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4])
        if end <= len(jpeg):
            yield jpeg[at + 1], jpeg[at + 2 : end]
        following = MARKER.search(jpeg, end)
        if following is None:
            return
        at = following.start()


def _pixels(jpeg: bytes) -> bytes:
    with Image.open(io.BytesIO(jpeg), formats=["JPEG"]) as image:
        return image.tobytes()
