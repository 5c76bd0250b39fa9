"""What is written inside a photo's file about it, and whether there is anything to see in it.

Descriptions are read from XMP and EXIF in all formats, from IPTC in JPEG and TIFF, and from the text
"Description" of a PNG.
"""

import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, IptcImagePlugin

from show_attend_tell.data.photos import FEWEST, PASSED_OVER, open_header, open_photo
from show_attend_tell.errors import PhotoError
from show_attend_tell.show.xmp import Packet

IMAGE_DESCRIPTION = 0x010E  # of EXIF
IPTC_CAPTION = (2, 120)
PACKET = re.compile(rb"<(\w+:xmpmeta|rdf:RDF)\b.*?</\1\s*>", re.DOTALL)  # XMP is made to be found so in any file
REDUCED = 64  # pixels of a side, to which a photo is averaged to see whether it is blank
SAME_LEVEL = 8  # of 255; noise and a JPEG's errors are less once averaged

# What cameras and programs write as the description of every photo.
NOT_A_PERSONS = re.compile(
    r"((OLYMPUS|MINOLTA|KONICA MINOLTA|SAMSUNG) )?DIGITAL CAMERA|SONY DSC|SAMSUNG CAMERA PICTURES|Exif_JPEG_PICTURE"
    r"|DCIM\\.*|default|(cof|dav|edf|hdr|rhdr|mde|nor|oznor|ptr|qrf|sdr)(_soft|_vivid)?|ImageJ=.*|\{.*\}",
    re.DOTALL,
)


@dataclass
class Inside:
    """What is inside a photo's file."""

    packets: list[Packet] = field(default_factory=list)  # of XMP
    descriptions: list[str] = field(default_factory=list)  # of EXIF, IPTC and PNG
    too_small: bool = False
    blank: bool = False


def look_inside(photo: Path) -> Inside:
    """What is inside a photo's file. Raises `PhotoError` for one that cannot be read."""
    inside = Inside()
    with open_header(photo, str(photo)) as image:
        inside.too_small = min(image.size) < FEWEST
        image.draft("RGB", (REDUCED, REDUCED))  # a JPEG is decoded in less detail
        try:
            opened = open_photo(image)
        except PhotoError:  # its pixels may be read without what is wrong in the file
            opened = open_photo(photo)
        reduced = np.asarray(opened.resize((REDUCED, REDUCED), Image.Resampling.BOX))
        inside.blank = int(np.ptp(reduced, axis=(0, 1)).max()) <= SAME_LEVEL
        inside.descriptions.append(image.info.get("Description", ""))
        if image.format == "PNG":  # a text that was passed over may be a description
            inside.descriptions.append(opened.info.get(PASSED_OVER, image.info.get(PASSED_OVER, "")))
        with suppress(Exception):  # damaged EXIF and IPTC raise almost anything
            inside.descriptions.append(str(image.getexif().get(IMAGE_DESCRIPTION, "")))
        with suppress(Exception):
            captions = (IptcImagePlugin.getiptcinfo(image) or {}).get(IPTC_CAPTION, [])
            for caption in captions if isinstance(captions, list) else [captions]:
                inside.descriptions.append(caption.decode("utf-8", "replace"))
        content = image.info.get("xmp") or photo.read_bytes()
    found = PACKET.search(content)
    if found:
        with suppress(ValueError):
            inside.packets.append(Packet(found[0]))
    return inside


def by_a_person(description: str) -> bool:
    """Whether a description is no blank, and none that cameras and programs write by themselves."""
    text = description.strip("\0 \t\r\n")
    return bool(text) and not NOT_A_PERSONS.fullmatch(text)
