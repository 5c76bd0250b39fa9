"""Sidecars: a caption is added, nothing else in them changes, and no person's description gets a rival."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw
from PIL.PngImagePlugin import PngInfo

from show_attend_tell.errors import SatError
from show_attend_tell.show.sidecar import REVIEW, SidecarSettings, check_sidecars, sidecar_of, summary, write_sidecar
from show_attend_tell.show.xmp import NAMESPACES, RDF

DC = NAMESPACES["dc"]
TEXT = 'ein Gemälde & "zwei" <Hunde>'
SEEN = """<?xml version="1.0" encoding="UTF-8"?>
<!-- by hand: ä --><?mine and its data?>
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0-Exiv2">
 <r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:unused="urn:x">
  <r:Description r:about="uuid:1 &amp; 2" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmp:Rating="4" xmp:Label="a&#10;b">
   <xmp:Nickname><![CDATA[<raw>]]></xmp:Nickname>
  </r:Description>
 </r:RDF>
</x:xmpmeta>
<?xpacket end="w"?>
"""


def inserted(before: bytes, after: bytes) -> bytes:
    """What was put into a file whose other bytes stayed as they were."""
    start = next(
        at for at in range(len(before) + 1) if before[:at] == after[:at] and before[at:] == after[at - len(before) :]
    )
    return after[start : start + len(after) - len(before)]


def save(file: Path, **options: Any) -> bytes:
    """Save a small photo, and return its bytes."""
    photo = Image.new("RGB", (41, 31), (90, 150, 220))
    ImageDraw.Draw(photo).rectangle((11, 7, 29, 23), fill=(200, 40, 40))
    photo.save(file, **options)
    return file.read_bytes()


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    save(tmp_path / "a.jpg")
    return tmp_path / "a.jpg"


def write(photo: Path, text: str = TEXT, **options: Any) -> str:
    return write_sidecar(photo, text, model="everyday-soft", **options)


@pytest.mark.parametrize(
    "before",
    [
        SEEN.encode(),
        SEEN.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + SEEN.encode(),
        SEEN.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
    ],
)
def test_every_byte_of_a_sidecar_stays(before, photo):
    file = sidecar_of(photo)
    file.write_bytes(before)
    assert write(photo) == "written"
    added = inserted(before, file.read_bytes()).decode("ascii")
    assert 'about="uuid:1 &amp; 2"' in added and "ein Gem&#228;lde &amp; " in added
    written = file.read_bytes()
    assert write(photo, "again") == "captioned" and file.read_bytes() == written
    own = SidecarSettings(replace="own")
    assert write(photo, "again", options=own) == "replaced" and file.read_bytes() != written
    assert write(photo, options=own) == "replaced" and file.read_bytes() == written


def test_a_new_sidecar_is_what_others_read(photo, tmp_path):
    from xml.etree import ElementTree

    assert write(photo) == "written"
    (text,) = ElementTree.parse(tmp_path / "a.jpg.xmp").iterfind(
        f".//{{{DC}}}description//*[@{{http://www.w3.org/XML/1998/namespace}}lang='x-default']"
    )
    assert text.text == TEXT


def with_description(inner: str) -> str:
    """`SEEN` with an element dc:description."""
    return SEEN.replace("<xmp:Nickname>", f'<d:description xmlns:d="{DC}">{inner}</d:description><xmp:Nickname>')


AS_ATTRIBUTE = SEEN.replace('xmp:Rating="4"', f'xmlns:d="{DC}" d:description="mine"')
OF_PHOTOSHOP = SEEN.replace('xmp:Rating="4"', f'xmlns:p="{NAMESPACES["photoshop"]}" p:CaptionWriter="Jo"')


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (with_description("mine").encode(), ""),
        (AS_ATTRIBUTE.encode(), ""),
        (OF_PHOTOSHOP.encode(), ""),
        (SEEN.encode("utf-16"), "encoding"),
        (SEEN.replace("?>", ' standalone="yes"?>', 1).replace("UTF-8", "UTF-16").encode("utf-16"), "unclosed|encoding"),
        (SEEN.encode()[:-60], "no element|unclosed"),
        (b"", "no element found"),
        (b"<x/>", "no rdf:RDF"),
        (SEEN.replace("<!--", "<!DOCTYPE x><!--").encode(), "a document type"),
        (f'<r:RDF xmlns:r="{RDF}"/>'.encode(), "junk|not well-formed"),
    ],
)
def test_what_has_a_description_or_cannot_be_read_stays(content, why, photo, tmp_path):
    for name in ("photo.jpg.xmp", "photo.xmp"):  # in the one that is written, and in the one beside it
        file = sidecar_of(photo, name)
        file.write_bytes(content)
        if why:
            with pytest.raises(SatError, match=rf"a\.(jpg\.)?xmp: cannot be .* as XMP \(.*({why})"):
                write(photo, options=SidecarSettings(name=name))
        else:
            assert write(photo, options=SidecarSettings(name=name, replace="own")) == "described"
        assert file.read_bytes() == content and len(list(tmp_path.iterdir())) == 2
        file.unlink()


@pytest.mark.parametrize(
    "before",
    [
        with_description("").replace("></d:description>", "/>"),
        with_description("<r:Alt><r:li xml:lang='x-default'/></r:Alt>"),
        AS_ATTRIBUTE.replace('"mine"', f'"{" " * 31}"'),
    ],
)
def test_blanks_are_no_description(before, photo, tmp_path):
    (tmp_path / "a.jpg.xmp").write_text(before)
    assert write(photo) == "written"
    after = (tmp_path / "a.jpg.xmp").read_bytes()
    assert after.count(b"</dc:description>") == 1 and b" d:description" not in after
    assert b"<xmp:Nickname><![CDATA[<raw>]]></xmp:Nickname>" in after


def iptc(caption: bytes) -> bytes:
    """The segment of a JPEG with IPTC's Caption-Abstract."""
    data = b"\x1c\x02\x78" + len(caption).to_bytes(2) + caption
    resource = b"Photoshop 3.0\x008BIM\x04\x04\0\0" + len(data).to_bytes(4) + data + b"\0" * (len(data) % 2)
    return b"\xff\xed" + (len(resource) + 2).to_bytes(2) + resource


def exif(text: str) -> Image.Exif:
    tags = Image.Exif()
    tags[0x010E] = text
    return tags


XMP_OF = (
    f"<x:xmpmeta xmlns:x='adobe:ns:meta/'><r:RDF xmlns:r='{RDF}'><r:Description xmlns:d='{DC}' d:description='TEXT'/>"
    "</r:RDF></x:xmpmeta>"
)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [("the harbour", "described"), (" " * 31, "written"), ("OLYMPUS DIGITAL CAMERA         ", "written")],
)
def test_a_description_inside_the_photo_is_a_persons(text, outcome, tmp_path):
    packet = XMP_OF.replace("TEXT", text).encode()
    photos = {
        "xmp.jpg": save(tmp_path / "xmp.jpg", xmp=packet),
        "xmp.webp": save(tmp_path / "xmp.webp", xmp=packet),
        "exif.jpg": save(tmp_path / "exif.jpg", exif=exif(text)),
        "exif.png": save(tmp_path / "exif.png", exif=exif(text)),
        "iptc.jpg": save(tmp_path / "iptc.jpg"),
    }
    photos["iptc.jpg"] = photos["iptc.jpg"][:2] + iptc(text.encode()) + photos["iptc.jpg"][2:]
    if text == "the harbour":  # more than is unpacked, in which a description may be
        hidden = PngInfo()
        hidden.add_itxt("XML:com.adobe.xmp", " " * 2_000_000 + packet.decode(), zip=True)
        photos["large.png"] = save(tmp_path / "large.png", pnginfo=hidden)
    photos["end.gif"] = save(tmp_path / "end.gif") + packet  # found wherever it is
    for name, content in photos.items():
        (tmp_path / name).write_bytes(content)
        assert (name, write(tmp_path / name)) == (name, outcome)
        assert (tmp_path / name).read_bytes() == content
        assert sidecar_of(tmp_path / name).exists() == (outcome == "written")


def test_what_a_person_changes_in_a_caption_is_that_persons(photo):
    write(photo, "two dogs")
    caption = sidecar_of(photo).read_bytes()
    own = SidecarSettings(replace="own")
    for before, after in ((b">two dogs<", b">my two dogs<"), (b"show-attend-tell everyday-soft", b"Jo")):
        edited = caption.replace(before, after, 1)
        sidecar_of(photo).write_bytes(edited)
        assert write(photo, options=own) == "described" and sidecar_of(photo).read_bytes() == edited


def test_one_sidecar_of_two_photos_is_about_one_of_them(tmp_path):
    short = SidecarSettings(name="photo.xmp")
    for name in ("a.jpg", "a.png"):
        save(tmp_path / name)
    assert write(tmp_path / "a.jpg", options=short) == "written"
    assert write(tmp_path / "a.png", options=short) == "of another photo"
    assert write(tmp_path / "a.png") == "written"
    assert write(tmp_path / "a.jpg") == "captioned"  # in a.xmp
    assert write(tmp_path / "a.jpg", "new", options=SidecarSettings(replace="own")) == "replaced"
    assert b">new<" in (tmp_path / "a.xmp").read_bytes()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.jpg", "a.png", "a.png.xmp", "a.xmp"]


def test_what_shows_nothing_or_is_not_sure_gets_none(photo, tmp_path):
    Image.new("RGB", (60, 40), "black").save(tmp_path / "blank.jpg")
    Image.effect_noise((19, 60), 90).save(tmp_path / "small.png")
    unsure = SidecarSettings(min_confidence=0.6)
    outcomes = [write(tmp_path / "blank.jpg"), write(tmp_path / "small.png"), write(photo, options=unsure)]
    outcomes += [write(photo, options=unsure, confidence=each) for each in (0.59, 0.6)]
    assert outcomes == ["blank", "too small", "unsure", "unsure", "written"]
    assert len(list(tmp_path.glob("*.xmp"))) == 1
    lines = summary(Counter(outcomes))  # type: ignore[arg-type]
    assert len(lines) == 4 and lines[0].startswith("1 sidecar written")
    assert summary(Counter()) == ["0 sidecars written beside the photos"]


def test_a_sidecar_that_cannot_be_written_names_its_file(photo, tmp_path):
    sidecar_of(photo).mkdir()
    with pytest.raises(SatError, match=r"a\.jpg\.xmp: cannot be") as refusal:
        write(photo)
    assert "another file" not in str(refusal.value)
    check_sidecars([photo])
    with pytest.raises(SatError, match="absent: no sidecar can be written"):
        check_sidecars([tmp_path / "absent" / "a.jpg"])


def test_a_caption_that_a_person_reviewed_is_replaced_by_a_later_review_alone(tmp_path):
    photo, own = tmp_path / "a.jpg", SidecarSettings(replace="own")
    Image.new("RGB", (9, 9)).save(photo)  # blank and small, which a person may describe all the same

    def outcome(text: str, model: str) -> str:
        return write_sidecar(photo, text, model=model, options=own)

    assert outcome("a dog", REVIEW) == "written"
    assert outcome("a cat", REVIEW) == "replaced"
    save(photo)
    assert outcome("a fox", "everyday-soft") == "described"
    assert "a cat" in sidecar_of(photo).read_text()
