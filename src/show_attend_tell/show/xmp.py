"""XMP packets (ISO 16684-1): what one says about a photo's description, and a change of that which keeps all else.

A change touches the bytes of the properties that it replaces, and no others: what other programs have written stays as
it is, down to spaces and comments.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
NAMESPACES = {
    "dc": "http://purl.org/dc/elements/1.1/",
    "Iptc4xmpCore": "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/",
    "photoshop": "http://ns.adobe.com/photoshop/1.0/",
    "tiff": "http://ns.adobe.com/tiff/1.0/",
    "sat": "urn:show-attend-tell:",
}
DESCRIPTION = "dc:description"
ALT_TEXT = "Iptc4xmpCore:AltTextAccessibility"
READ = (
    "dc:description tiff:ImageDescription Iptc4xmpCore:AltTextAccessibility photoshop:CaptionWriter "
    "photoshop:SidecarForExtension sat:caption sat:altText"
)
PROPERTIES = {  # that are read, by namespace and local name
    f"{NAMESPACES[prefix]} {local}": f"{prefix}:{local}"
    for prefix, _, local in (name.partition(":") for name in READ.split())
}
EMPTY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<x:xmpmeta xmlns:x="adobe:ns:meta/">\n'
    f' <rdf:RDF xmlns:rdf="{RDF}">\n </rdf:RDF>\n</x:xmpmeta>\n'
).encode()
TAG = re.compile(rb"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")


class Packet:
    """The properties of one XMP packet. Raises `ValueError` for what is not XMP."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.about = ""  # what the photo is called
        self._texts: dict[str, list[str]] = defaultdict(list)  # by property
        self._elements: dict[str, list[tuple[int, int]]] = defaultdict(list)  # first byte, and the one after the last
        self._attributes: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._end = 0  # the byte before which properties can be added
        self._inside: list[str] = []  # the elements around what is read
        self._property = ""  # whose text is read
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.namespace_prefixes = True
        self._parser.StartElementHandler = self._start
        self._parser.CharacterDataHandler = self._text
        self._parser.EndElementHandler = self._stop
        self._parser.StartDoctypeDeclHandler = _refuse_doctype
        try:
            self._parser.Parse(content, True)
        except expat.ExpatError as error:
            raise ValueError(str(error)) from None
        if not self._end:
            raise ValueError("no rdf:RDF")

    def __getitem__(self, name: str) -> list[str]:
        """The values of a property that are not blank, in all languages."""
        return [text.strip() for text in self._texts[name] if text.strip()]

    def replace(self, values: Mapping[str, list[str]]) -> bytes:
        """The packet with other values of some properties; a property without a value is removed.

        Raises `ValueError` for a packet that cannot be changed so, because of its encoding for example.
        """
        changes = []
        added = ""
        for name, texts in values.items():
            element = _element(name, texts)
            changes += [(first, last, "") for first, last in self._attributes[name]]
            for first, last in self._elements[name]:
                changes.append((first, last, element))
                element = ""
            if element:
                added += f"   {element}\n"
        if added:
            about = quoteattr(self.about)
            block = f' <rdf:Description xmlns:rdf="{RDF}" rdf:about={about}>\n{added}  </rdf:Description>\n '
            changes.append((self._end, self._end, block))
        content = self.content
        for first, last, new in sorted(changes, reverse=True):
            content = content[:first] + new.encode("ascii", "xmlcharrefreplace") + content[last:]
        after = Packet(content)
        if any(after[name] != values.get(name, self[name]) for name in PROPERTIES.values()):
            raise ValueError("its encoding")
        return content

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        at = self._parser.CurrentByteIndex
        tag = TAG.match(self.content, at)
        if tag is None:
            raise ValueError("its encoding")
        for key, value in attributes.items():
            if _plain(key) in ("about", f"{RDF} about") and self._inside[-1:] == [f"{RDF} RDF"] and not self.about:
                self.about = value
            known = PROPERTIES.get(_plain(key))
            if known:
                self._texts[known].append(value)
                _, local, prefix = key.split(" ")
                written = re.search(rb"\s%b:%b\s*=\s*(\"[^\"]*\"|'[^']*')" % (prefix.encode(), local.encode()), tag[0])
                if written:
                    self._attributes[known].append((at + written.start(), at + written.end()))
        self._inside.append(_plain(name))
        known = PROPERTIES.get(_plain(name))
        if known:
            self._property = known
            self._elements[known].append((at, tag.end()))
        if self._property:
            self._texts[self._property].append("")

    def _text(self, data: str) -> None:
        if self._property:
            self._texts[self._property][-1] += data

    def _stop(self, name: str) -> None:
        at = self._parser.CurrentByteIndex
        known = PROPERTIES.get(self._inside.pop())
        if known:
            first, behind_tag = self._elements[known][-1]
            if self.content[behind_tag - 2 : behind_tag] != b"/>":
                self._elements[known][-1] = (first, self.content.index(b">", at) + 1)
            self._property = ""
        if _plain(name) == f"{RDF} RDF":
            self._end = at


def _refuse_doctype(*_: object) -> None:
    raise ValueError("a document type")


def _plain(name: str) -> str:
    """A name as its namespace and its local name, without the prefix that a file has for the namespace."""
    return " ".join(name.split(" ")[:2])


def _element(name: str, texts: list[str]) -> str:
    """A property with these values as XML; an empty text without any."""
    if not texts:
        return ""
    inner = escape(texts[0])
    namespaces = f'xmlns:{name.split(":")[0]}="{NAMESPACES[name.split(":")[0]]}"'
    if name in (DESCRIPTION, ALT_TEXT):  # texts in several languages
        inner = f'<rdf:Alt><rdf:li xml:lang="x-default">{inner}</rdf:li></rdf:Alt>'
        namespaces += f' xmlns:rdf="{RDF}"'
    return f"<{name} {namespaces}>{inner}</{name}>"
