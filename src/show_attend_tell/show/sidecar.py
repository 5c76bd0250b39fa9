"""XMP sidecars: a photo's description in a file beside it, where photo managers such as darktable and digiKam read it.

The description of ``photo.jpg`` is the property ``dc:description`` in ``photo.jpg.xmp`` (ISO 16684-1, XMP).
"""

from pathlib import Path
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
DC = "http://purl.org/dc/elements/1.1/"
EMPTY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<x:xmpmeta xmlns:x="adobe:ns:meta/">\n'
    f' <rdf:RDF xmlns:rdf="{RDF}">\n </rdf:RDF>\n</x:xmpmeta>\n'
)
DESCRIPTION = f"""\
 <rdf:Description xmlns:rdf="{RDF}" xmlns:dc="{DC}" rdf:about="ABOUT">
   <dc:description><rdf:Alt><rdf:li xml:lang="x-default">TEXT</rdf:li></rdf:Alt></dc:description>
  </rdf:Description>
 """


def sidecar_of(photo: Path) -> Path:
    """The sidecar of a photo: its name with .xmp behind it."""
    return photo.with_name(f"{photo.name}.xmp")


def describe(photo: Path, text: str) -> bool:
    """Write a photo's description into its sidecar, behind what is there; False for one that has a description."""
    file = sidecar_of(photo)
    try:
        before = file.read_bytes() if file.exists() else EMPTY.encode()
        found = _read(before)
        if found["descriptions"]:
            return False
        about = escape(found["about"], {'"': "&quot;"})
        added = DESCRIPTION.replace("ABOUT", about).replace("TEXT", escape(text)).encode("ascii", "xmlcharrefreplace")
        content = before[: found["end"]] + added + before[found["end"] :]
        if _read(content) != {**found, "descriptions": [text], "end": found["end"] + len(added)}:
            raise ValueError("its encoding")
    except (OSError, ValueError, KeyError, expat.ExpatError) as error:
        raise SatError(f"cannot be read as XMP ({error})", subject=str(file)) from None
    atomic_write(file, lambda scratch: scratch.write_bytes(content))
    return True


def _read(content: bytes) -> dict[str, Any]:
    """What the photo is called in a sidecar, its descriptions, and the byte before which one can be added."""
    found: dict[str, Any] = {"descriptions": [], "about": ""}
    inside: list[str] = []  # the names of the elements around what is read

    def start(name: str, attributes: dict[str, str]) -> None:
        if len(inside) and inside[-1] == f"{RDF} RDF" and name == f"{RDF} Description" and not found["about"]:
            found["about"] = attributes.get(f"{RDF} about", attributes.get("about", ""))
        if name == f"{DC} description" or f"{DC} description" in attributes:
            found["descriptions"].append(attributes.get(f"{DC} description", ""))
        inside.append(name)

    def text(data: str) -> None:
        if f"{DC} description" in inside:
            found["descriptions"][-1] += data

    def end(name: str) -> None:
        if inside.pop() == f"{RDF} RDF":
            found["end"] = parser.CurrentByteIndex

    def doctype(*_: object) -> None:
        raise ValueError("a document type")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = doctype
    parser.Parse(content, True)
    if "end" not in found:
        raise ValueError("no rdf:RDF")
    return found
