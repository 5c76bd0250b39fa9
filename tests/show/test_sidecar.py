"""Sidecars: a description is added, and nothing else in them changes."""

from pathlib import Path

import pytest

from show_attend_tell.errors import SatError
from show_attend_tell.show.sidecar import DC, describe, sidecar_of

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


@pytest.mark.parametrize(
    "before",
    [
        SEEN.encode(),
        SEEN.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + SEEN.encode(),
        SEEN.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
    ],
    ids=["plain", "crlf", "bom", "latin-1"],
)
def test_every_byte_of_a_sidecar_stays(before: bytes, tmp_path: Path) -> None:
    file = sidecar_of(tmp_path / "a.jpg")
    file.write_bytes(before)
    assert describe(tmp_path / "a.jpg", TEXT)
    added = inserted(before, file.read_bytes()).decode("ascii")
    assert 'about="uuid:1 &amp; 2"' in added and "ein Gem&#228;lde &amp; " in added
    assert not describe(tmp_path / "a.jpg", "again")  # it has a description now


def test_a_new_sidecar_is_what_others_read(tmp_path: Path) -> None:
    from xml.etree import ElementTree

    assert describe(tmp_path / "a.jpg", TEXT)
    (text,) = ElementTree.parse(tmp_path / "a.jpg.xmp").iterfind(
        f".//{{{DC}}}description//*[@{{http://www.w3.org/XML/1998/namespace}}lang='x-default']"
    )
    assert text.text == TEXT


DESCRIBED = SEEN.replace("<xmp:Nickname>", f'<d:description xmlns:d="{DC}"/><xmp:Nickname>')
AS_ATTRIBUTE = SEEN.replace('xmp:Rating="4"', f'xmlns:d="{DC}" d:description="mine"')


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (DESCRIBED.encode(), ""),
        (AS_ATTRIBUTE.encode(), ""),
        (SEEN.encode("utf-16"), "encoding"),
        (SEEN.replace("?>", ' standalone="yes"?>', 1).replace("UTF-8", "UTF-16").encode("utf-16"), "unclosed|encoding"),
        (SEEN.encode()[:-60], "no element|unclosed"),
        (b"", "no element found"),
        (b"<x/>", "no rdf:RDF"),
        (SEEN.replace("<!--", "<!DOCTYPE x><!--").encode(), "a document type"),
        (b'<r:RDF xmlns:r="http://www.w3.org/1999/02/22-rdf-syntax-ns#"/>', "junk"),
    ],
    ids=["described", "attribute", "wrong encoding", "utf-16", "cut", "empty", "other", "doctype", "closed"],
)
def test_what_has_a_description_or_cannot_be_read_stays(content: bytes, why: str, tmp_path: Path) -> None:
    file = sidecar_of(tmp_path / "a.jpg")
    file.write_bytes(content)
    if why:
        with pytest.raises(SatError, match=rf"a\.jpg\.xmp: cannot be read as XMP \(.*({why})"):
            describe(tmp_path / "a.jpg", TEXT)
    else:
        assert not describe(tmp_path / "a.jpg", TEXT)
    assert file.read_bytes() == content and len(list(tmp_path.iterdir())) == 1
