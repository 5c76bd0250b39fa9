"""XMP sidecars: a caption in a file beside its photo, where photo managers such as darktable and digiKam read it.

The caption of ``photo.jpg`` is the property ``dc:description`` in ``photo.jpg.xmp``, or in ``photo.xmp``. A person's
description is never replaced, and never gets a rival: it may be in either file, or inside the photo. Blanks, and what
cameras write by themselves, are no description.

That a program wrote a caption is said in two properties:

- ``photoshop:CaptionWriter``, IPTC's *Description Writer*, names it: "show-attend-tell everyday-soft". exiftool,
  digiKam and GIMP show it. IPTC's ``DigitalSourceType`` would say that the *photo* is made by a program.
- ``sat:caption`` repeats the caption. A later run may replace a description that still is this one, word for word.
  Once a person has edited it or has taken over as its writer, it is that person's. So is a caption that a person has
  reviewed in `sat review`, whose writer is "show-attend-tell review": only a later review replaces it.

``photoshop:SidecarForExtension`` says of a ``photo.xmp`` which of ``photo.jpg`` and ``photo.png`` it is about, as
Lightroom and Camera Raw have it.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from show_attend_tell.errors import SatError
from show_attend_tell.files import atomic_write
from show_attend_tell.messages import plural
from show_attend_tell.settings import Share, settings
from show_attend_tell.show.embedded import Inside, by_a_person, look_inside
from show_attend_tell.show.xmp import ALT_TEXT, DESCRIPTION, EMPTY, Packet

PROGRAM = "show-attend-tell"  # how the name of a description's writer begins where it is this program
WRITER = "photoshop:CaptionWriter"
REVIEW = "review"  # what stands for the name of the model where a person has reviewed the caption
EXTENSION = "photoshop:SidecarForExtension"
CAPTION = "sat:caption"
ALT_COPY = "sat:altText"  # the alternative text that this program wrote, as sat:caption is of the caption
FULL_NAME: Final = "photo.jpg.xmp"
SHORT_NAME: Final = "photo.xmp"
REMEDY = "allow writing there, or caption a copy of the folder"

Outcome = Literal["written", "replaced", "captioned", "described", "of another photo", "blank", "too small", "unsure"]
IN_WORDS: dict[Outcome, tuple[str, str]] = {
    "written": ("sidecar", "written beside the photos"),
    "replaced": ("sidecar", "with a new caption in place of an earlier one"),
    "captioned": ("photo", "with a caption of an earlier run left alone (--sidecar replace=own replaces it)"),
    "described": ("photo", "with a person's description left alone"),
    "of another photo": ("photo", "left alone whose sidecar is about another photo"),
    "blank": ("blank photo", "without a sidecar"),
    "too small": ("photo", "of too few pixels without a sidecar"),
    "unsure": ("photo", "below the confidence for a sidecar"),
}


@settings
class SidecarSettings:
    """How captions are written into sidecars."""

    name: Literal["photo.jpg.xmp", "photo.xmp"] = Field(
        FULL_NAME, description="what the sidecar of photo.jpg is called"
    )
    replace: Literal["none", "own"] = Field(
        "none", description="own: captions of earlier runs that nobody edited are replaced"
    )
    min_confidence: Share = Field(0.0, description="captions with a lower confidence get no sidecar")


def sidecar_of(photo: Path, name: str = FULL_NAME) -> Path:
    """The sidecar of a photo by `SidecarSettings.name`; one that is there may end in .XMP."""
    file = photo.with_name(f"{photo.name}.xmp") if name == FULL_NAME else photo.with_suffix(".xmp")
    upper = file.with_suffix(".XMP")
    return upper if upper.exists() else file


def check_sidecars(photos: Iterable[Path]) -> None:
    """Raise `SatError` if no sidecar can be written beside some of the photos."""
    for folder in {photo.parent for photo in photos}:
        if not os.access(folder, os.W_OK):
            raise SatError("no sidecar can be written in this folder", subject=str(folder), remedy=REMEDY)


def write_sidecar(
    photo: Path,
    text: str,
    *,
    model: str,
    confidence: float | None = None,
    options: SidecarSettings | None = None,
    alt_text: str | None = None,
) -> Outcome:
    """Write a photo's caption into its sidecar, or leave it alone; the result says which, and why.

    ``model`` is the name of the caption's model, or `REVIEW`; ``confidence`` is that of its row in a table. An
    ``alt_text`` becomes IPTC's Alt Text (Accessibility), an empty one removes it, and None leaves it; one that another
    program has written stays. Raises `SatError` for a sidecar that cannot be read as XMP, or cannot be written.
    """
    options = options or SidecarSettings()
    inside = look_inside(photo)
    if inside.too_small and model != REVIEW:
        return "too small"
    if inside.blank and model != REVIEW:
        return "blank"
    if options.min_confidence and (confidence is None or confidence < options.min_confidence):
        return "unsure"
    sidecars = _sidecars(photo)
    outcome = _settled(sidecars, options, model, inside)
    if outcome is not None:
        return outcome
    former = [name for name, packet in sidecars.items() if _captions(packet, model)]
    for name in former or [options.name]:
        values = {DESCRIPTION: [text], WRITER: [f"{PROGRAM} {model}"], CAPTION: [text]}
        there = sidecars[name][ALT_TEXT]
        if alt_text is not None and there == sidecars[name][ALT_COPY]:  # none, or this program's own
            values[ALT_TEXT] = values[ALT_COPY] = [alt_text] if alt_text else []
        if name == SHORT_NAME:
            values[EXTENSION] = [photo.suffix[1:].lower()]
        _write(sidecar_of(photo, name), sidecars[name], values)
    return "replaced" if former else "written"


def settled(photo: Path, options: SidecarSettings) -> Outcome | None:
    """Why a photo needs no caption, as far as its sidecars tell.

    That is so where a person or an earlier run has described it, and where the sidecar is about another photo.
    """
    return _settled(_sidecars(photo), options, "", Inside())


def _settled(sidecars: Mapping[str, Packet], options: SidecarSettings, model: str, inside: Inside) -> Outcome | None:
    """`settled`, from a photo's sidecars and what is ``inside`` its file, for the caption of a model."""
    packets = [*inside.packets, *sidecars.values()]
    own = {caption for packet in packets for caption in _captions(packet, model)}
    descriptions = [words for packet in packets for words in packet[DESCRIPTION] + packet["tiff:ImageDescription"]]
    if any(words not in own and by_a_person(words) for words in descriptions + inside.descriptions):
        return "described"
    if options.name not in sidecars:
        return "of another photo"
    if any(not writer.startswith(PROGRAM) for writer in sidecars[options.name][WRITER]):
        return "described"
    captioned = any(_captions(packet, model) for packet in sidecars.values())
    return "captioned" if captioned and options.replace == "none" else None


def summary(outcomes: Counter[Outcome]) -> list[str]:
    """How many sidecars were written, and how many photos have got none and why: a sentence each."""
    return [
        f"{plural(outcomes[outcome], thing)} {sentence}"
        for outcome, (thing, sentence) in IN_WORDS.items()
        if outcomes[outcome] or outcome == "written"
    ]


def _sidecars(photo: Path) -> dict[str, Packet]:
    """The sidecars that are about the photo, by `SidecarSettings.name`; one that is not there is empty."""
    sidecars = {name: _read(sidecar_of(photo, name)) for name in (FULL_NAME, SHORT_NAME)}
    suffix = photo.suffix[1:].lower()
    return {
        name: packet
        for name, packet in sidecars.items()
        if all(extension.lower() == suffix for extension in packet[EXTENSION])
    }


def _read(file: Path) -> Packet:
    try:
        return Packet(file.read_bytes() if file.exists() else EMPTY)
    except (OSError, ValueError) as error:
        raise SatError(f"cannot be read as XMP ({error}), and is left as it is", subject=str(file)) from None


def _write(file: Path, packet: Packet, values: dict[str, list[str]]) -> None:
    try:
        content = packet.replace(values)
        atomic_write(file, lambda scratch: scratch.write_bytes(content))
    except ValueError as error:
        raise SatError(f"cannot be changed as XMP ({error}), and is left as it is", subject=str(file)) from None
    except SatError as error:
        reason = getattr(error.__cause__, "strerror", None) or error.reason
        raise SatError(f"cannot be written ({reason})", subject=str(file), remedy=REMEDY) from None


def _captions(packet: Packet, model: str) -> list[str]:
    """What this program has written, and may write anew for that model: while no person is named as its writer."""
    writers = packet[WRITER]
    reviewed = f"{PROGRAM} {REVIEW}" in writers and model != REVIEW
    return packet[CAPTION] if not reviewed and any(writer.startswith(PROGRAM) for writer in writers) else []
