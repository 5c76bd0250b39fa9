"""Any photo opens as an upright RGB image, and becomes the square that the encoder sees."""

import io
import json
import struct
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms

from show_attend_tell.data.photos import (
    PASSED_OVER,
    PREPROCESSING_VERSION,
    Preprocessing,
    mirrors,
    open_photo,
    photos_in,
)
from show_attend_tell.errors import SatError

WIDTH, HEIGHT = 23, 17


@pytest.fixture
def scene() -> Image.Image:
    """Red grows to the right, green to the bottom; the two sizes are coprime."""
    red = np.linspace(0, 255, WIDTH)[None, :].repeat(HEIGHT, 0)
    green = np.linspace(0, 255, HEIGHT)[:, None].repeat(WIDTH, 1)
    return Image.fromarray(np.stack([red, green, np.full_like(red, 90)], 2).astype(np.uint8))


def array(photo: Image.Image) -> np.ndarray[Any, Any]:
    assert photo.mode == "RGB"
    return np.asarray(photo).astype(int)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV"])
def test_every_mode_becomes_rgb(scene, mode):
    photo = scene.convert("L").convert("PA") if mode == "PA" else scene.convert(mode)
    gray = mode in ("1", "L", "LA", "PA")
    expected = scene.convert("1" if mode == "1" else "L").convert("RGB") if gray else scene
    tolerance = 60 if mode == "P" else 12
    assert np.abs(array(open_photo(photo)) - array(expected)).max() <= tolerance


def test_transparency_is_laid_on_white(scene, tmp_path):
    assert open_photo(Image.merge("LAB", scene.split())).mode == "RGB"  # to which Pillow does not convert by itself
    for premultiplied, straight in (("RGBa", "RGBA"), ("La", "LA")):
        opaque = scene.convert(straight)
        assert np.array_equal(array(open_photo(opaque.convert(premultiplied))), array(opaque.convert("RGB")))
    clear = scene.copy()
    clear.putalpha(Image.new("L", scene.size, 0))
    assert (array(open_photo(clear)) == 255).all()
    half = scene.copy()
    half.putalpha(128)
    assert np.abs(array(open_photo(half)) - (array(scene) * 128 + 255 * 127) / 255).max() <= 1


def png(pixels: Any, bits: int, color: int, *chunks: tuple[bytes, bytes]) -> bytes:
    """A PNG file of pixels (H, W) or (H, W, channels), of a color type of the standard, with more chunks."""
    rows = np.array(pixels).reshape(len(pixels), -1, 1) >> np.arange(bits)[::-1] & 1  # bit by bit
    stored = b"".join(b"\0" + np.packbits(row.astype(bool)).tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", len(pixels[0]), len(pixels), bits, color, 0, 0, 0)
    parts = ((b"IHDR", header), *chunks, (b"IDAT", zlib.compress(stored)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


def chunk(kind: bytes, data: bytes, checksum: int | None = None) -> bytes:
    """A chunk of a PNG, with its checksum or a wrong one."""
    right = zlib.crc32(kind + data)
    return len(data).to_bytes(4) + kind + data + (right if checksum is None else checksum).to_bytes(4)


def clear(*levels: int) -> tuple[bytes, bytes]:
    """The chunk that says which level or color of a PNG is transparent."""
    return b"tRNS", struct.pack(f">{len(levels)}H", *levels)


WHITE, LIGHT, BROWN = (255, 255, 255), (170, 170, 170), (200, 100, 50)
COLORS = b"PLTE", bytes([10, 20, 30, *BROWN])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (png([[0, 1]], 1, 0), [(0, 0, 0), WHITE]),
        (png([[0, 1]], 1, 0, clear(0)), [WHITE, WHITE]),
        (png([[1, 2]], 2, 0, clear(1)), [(85, 85, 85), LIGHT]),  # Pillow scales the levels, and not which is clear
        (png([[85, 170]], 8, 0, clear(85)), [WHITE, LIGHT]),
        (png([[0, 43690]], 16, 0, clear(0)), [WHITE, LIGHT]),
        (png([[65535, 2730]], 16, 0, clear(65535)), [WHITE, LIGHT]),  # 12 bits on a transparent ground
        (png([[[1, 2, 3], [1, 2, 4]]], 8, 2, clear(1, 2, 3)), [WHITE, (1, 2, 4)]),
        (png([[[300, 400, 25700], [256, 25700, 512]]], 16, 2, clear(300, 400, 25700)), [(1, 1, 100), (1, 100, 2)]),
        *[(png([[0, 1]], bits, 3, COLORS, (b"tRNS", b"\0")), [WHITE, BROWN]) for bits in (1, 2, 4, 8)],
        (png([[0, 1]], 8, 3, COLORS, (b"tRNS", b"\x80")), [(132, 137, 142), BROWN]),
        (png([[[9, 0], [170, 255]]], 8, 4), [WHITE, LIGHT]),
        (png([[[9, 0], [43690, 65535]]], 16, 4), [WHITE, LIGHT]),
        (png([[[9, 9, 9, 0], [*BROWN, 255]]], 8, 6), [WHITE, BROWN]),
    ],
)  # fmt: skip
def test_pixels_of_any_depth_and_transparency_are_read(content, expected):
    assert np.abs(array(open_photo(content))[0] - expected).max() <= 1
    with Image.open(io.BytesIO(content)) as image:
        before = dict(image.info)
        assert np.abs(array(open_photo(image))[0] - expected).max() <= 1
        assert image.info == before


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("f4", [0, 0.5, 1], [0, 128, 255]),
        ("f4", [0, 51, 204], [0, 51, 204]),
        ("i4", [0, 1024, 4095], [0, 64, 255]),
        ("u2", [0, 1024, 4095], [0, 64, 255]),
        ("u2", [0, 1, 255], [0, 1, 255]),
        ("u2", [0, 257, 4096], [0, 1, 16]),
        ("i4", [-100000, 0, 100000], [0, 128, 255]),
        ("f4", [-2, 0.5, 3], [0, 128, 255]),
        ("f4", [-2, -2, -2], [0, 0, 0]),
    ],
)
def test_deep_images_are_scaled_to_the_range_that_holds_them(kind, values, expected):
    levels = np.array([values], kind)
    for photo in (Image.fromarray(levels), levels if kind == "u2" else Image.fromarray(levels)):
        assert array(open_photo(photo))[0, :, 0].tolist() == expected


def test_a_deep_tiff_whose_levels_are_inverted_is_refused():
    file = io.BytesIO()
    Image.fromarray(np.array([[0, 4095]], "u2")).save(file, "TIFF", tiffinfo={262: 0})  # 0 is white
    with pytest.raises(SatError, match="a TIFF file of 16 bits of a kind that is misread: save it as PNG"):
        open_photo(file.getvalue())


def profile(*colors: tuple[float, ...], gamma: float = 2.2) -> bytes:
    """An ICC profile (version 2) of a screen, by the XYZ of red, green and blue under D50; without them, of gray."""

    def xyz(values: tuple[float, ...]) -> bytes:
        return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(value * 65536) for value in values))

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, round(gamma * 256)) + b"\0\0"
    tags = {b"wtpt": xyz((0.9642, 1.0, 0.8249))}
    tags |= {name: xyz(color) for name, color in zip((b"rXYZ", b"gXYZ", b"bXYZ"), colors, strict=False)}
    tags |= dict.fromkeys((b"rTRC", b"gTRC", b"bTRC") if colors else (b"kTRC",), curve)
    at, table, body = 132 + 12 * len(tags), struct.pack(">I", len(tags)), b""
    for name, data in tags.items():
        table += name + struct.pack(">II", at + len(body), len(data))
        body += data
    white, space = struct.pack(">3i", 63190, 65536, 54061), b"RGB " if colors else b"GRAY"
    head = struct.pack(">I4xI", at + len(body), 0x02400000) + b"mntr" + space + b"XYZ " + bytes(12) + b"acsp"
    return (head + bytes(28) + white).ljust(128, b"\0") + table + body


P3 = (0.5151, 0.2412, -0.0011), (0.2920, 0.6922, 0.0419), (0.1571, 0.0666, 0.7841)
OF_SRGB = (0.4361, 0.2225, 0.0139), (0.3851, 0.7169, 0.0971), (0.1431, 0.0606, 0.7141)
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


@pytest.mark.parametrize("stored", [(200, 100, 50), (90, 90, 90), (40, 180, 120)])
@pytest.mark.parametrize(
    ("mode", "kind"),
    [(mode, kind) for kind in ("PNG", "TIFF", "WEBP") for mode in ("RGB", "RGBA", "P") if (mode, kind) != ("P", "WEBP")]
    + [("RGB", "JPEG")],
)
def test_a_color_profile_is_applied(stored, mode, kind):
    linear = np.linalg.inv(np.transpose(OF_SRGB)) @ np.transpose(P3) @ (np.array(stored) / 255) ** 2.2
    linear = np.clip(linear, 0, 1)
    expected = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055) * 255
    photo, file = Image.new("RGB", (5, 3), stored), io.BytesIO()
    lossless = {"lossless": True} if kind == "WEBP" else {}
    (photo.quantize() if mode == "P" else photo.convert(mode)).save(file, kind, icc_profile=profile(*P3), **lossless)
    assert np.abs(array(open_photo(file.getvalue()))[1, 2] - expected).max() <= 3


LINEAR = profile(gamma=1.0)
OF_GRAY = b"iCCP", b"gray\0\0" + zlib.compress(LINEAR)


@pytest.mark.parametrize(
    "content",
    [
        png([[0, 0]], 1, 0, OF_GRAY),
        png([[85, 85]], 8, 0, OF_GRAY, clear(3)),
        png([[21845, 65535]], 16, 0, OF_GRAY, clear(65535)),
        png([[[85, 255], [9, 0]]], 8, 4, OF_GRAY),
    ],
)
def test_a_profile_of_gray_is_applied_at_every_depth(content):
    """A third of the light is stored as 85 of 255 where levels are linear, and as 156 in sRGB."""
    found = array(open_photo(content))[0, 0]
    assert np.abs(found - (0 if content[24] == 1 else 156)).max() <= 1


def test_a_profile_of_srgb_a_damaged_one_or_one_of_other_colors_changes_no_pixel(scene):
    for icc in (SRGB, b"no profile"):
        scene.info["icc_profile"] = icc
        assert np.array_equal(array(open_photo(scene)), array(scene))
    for mode in ("L", "CMYK"):
        photo = scene.convert(mode)
        photo.info["icc_profile"] = profile(*P3)
        assert np.array_equal(array(open_photo(photo)), array(photo.convert("RGB")))


# How the camera's sensor lay, so that turning the photo as the tag from 2 on says gives the scene.
LYING = "FLIP_LEFT_RIGHT ROTATE_180 FLIP_TOP_BOTTOM TRANSPOSE ROTATE_90 TRANSVERSE ROTATE_270".split()


@pytest.mark.parametrize(("orientation", "turn"), list(enumerate(LYING, start=2)))
def test_exif_orientation_is_applied(scene, tmp_path, orientation, turn):
    stored = scene.transpose(Image.Transpose[turn])
    stored.save(tmp_path / "turned.png", exif=turned(orientation))
    assert np.array_equal(array(open_photo(tmp_path / "turned.png")), array(scene))


def turned(orientation: int) -> Image.Exif:
    """The metadata of a photo that the camera stores as it lay."""
    tags = Image.Exif()
    tags[0x0112] = orientation
    return tags


@pytest.mark.parametrize("suffix", ["gif", "webp", "png", "tiff"])
def test_an_animation_gives_its_first_frame(tmp_path, suffix):
    frames = [Image.new("RGB", (5, 3), color) for color in ("red", "lime", "blue")]
    path = tmp_path / f"moving.{suffix}"
    frames[0].save(path, save_all=True, append_images=frames[1:], lossless=True)
    assert open_photo(path).getpixel((2, 1)) == (255, 0, 0)
    with Image.open(path) as image:
        image.seek(2)
        assert open_photo(image).getpixel((2, 1)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("channels", "kind", "color", "expected"),
    [
        ((), "u1", 51, (51, 51, 51)),
        ((1,), "u2", 51 * 257, (51, 51, 51)),
        ((1,), ">u2", 51 * 257, (51, 51, 51)),
        ((3,), "f8", (0.2, 0.4, 1.0), (51, 102, 255)),
        ((3,), "f2", (0.2, 0.4, 1.0), (51, 102, 255)),
        ((4,), "u1", (9, 8, 7, 0), (255, 255, 255)),
    ],
)
def test_arrays(channels, kind, color, expected):
    photo = open_photo(np.full((3, 5, *channels), color, kind))
    assert photo.size == (5, 3)
    assert photo.getpixel((4, 2)) == expected


class Given:
    """A file object of a program's own, which gives what it holds."""

    def __init__(self, content: bytes | None) -> None:
        self.content = content

    def read(self) -> bytearray | None:
        return None if self.content is None else bytearray(self.content)


def test_bytes_and_open_files_are_photos(scene, tmp_path):
    scene.save(tmp_path / "scene.png")
    content = (tmp_path / "scene.png").read_bytes()
    for photo in (content, bytearray(content), memoryview(content), io.BytesIO(content), Given(content)):
        assert np.array_equal(array(open_photo(photo)), array(scene))
    with open(tmp_path / "scene.png", "rb") as file:
        assert np.array_equal(array(open_photo(file)), array(scene))
        with pytest.raises(SatError, match=r"scene\.png: gives no bytes: rewind it with seek\(0\)"):
            open_photo(file)
    with pytest.raises(SatError, match=r"scene\.png: cannot be read .*closed"):
        open_photo(file)
    with open(tmp_path / "scene.png") as text, pytest.raises(SatError, match=r"scene\.png: "):
        open_photo(text)


def test_tensors_are_photos(scene):
    tensor = torch.from_numpy(np.asarray(scene).copy()).permute(2, 0, 1)
    shares = tensor / 255
    opaque = torch.cat([tensor, torch.full_like(tensor[:1], 255)])
    for photo in (tensor, shares, shares.to(torch.float64), opaque, shares.requires_grad_()):
        assert np.array_equal(array(open_photo(photo)), array(scene))
    gray = array(scene.convert("L").convert("RGB"))
    levels = torch.from_numpy(np.asarray(scene.convert("L")).copy())
    for one in (levels, levels[None]):
        assert np.array_equal(array(open_photo(one)), gray)
    assert np.abs(array(open_photo(levels.bfloat16() / 255)) - gray).max() <= 1


def test_heic_is_read_with_its_package(scene, tmp_path, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    heif.register_heif_opener()
    scene.resize((230, 170)).save(tmp_path / "phone.heic", format="HEIF", quality=-1)
    content = (tmp_path / "phone.heic").read_bytes()
    for photo in (tmp_path / "phone.heic", content):
        opened = open_photo(photo)
        assert opened.size == (230, 170)
        assert np.abs(array(opened) - array(scene.resize((230, 170)))).mean() < 4
    (tmp_path / "cut.heic").write_bytes(content[: len(content) // 2])
    with pytest.raises(SatError, match=r"cut\.heic: "):
        open_photo(tmp_path / "cut.heic")

    monkeypatch.setitem(sys.modules, "pillow_heif", None)  # as where it is not installed
    with pytest.raises(SatError, match=r"phone\.heic: .* pip install .*\[heic\]"):
        open_photo(tmp_path / "phone.heic")
    with pytest.raises(SatError, match=r"not a photo in a format that is read here \(JPEG, .*\)$") as refusal:
        open_photo(b"no photo")
    assert "HEIC" not in str(refusal.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((3, 5, 7), np.uint8), r"shape \(3, 5, 7\)"),
        (np.zeros(5, np.uint8), r"shape \(5,\)"),
        (np.zeros((0, 5, 3), np.uint8), "an empty photo"),
        (np.zeros((3, 5), np.int64), "type int64"),
        (np.full((3, 5), 200.0), "floats are read from 0 to 1, these go from 200 to 200"),
        (np.full((3, 5), np.nan), "floats are read from 0 to 1, these go from nan"),
        (Image.new("RGB", (0, 5)), "an empty photo"),
        (Image.fromarray(np.array([[0, np.nan]], np.float32)), "not finite"),
        (torch.zeros(7, 3, 5), r"tensor of shape \(7, 3, 5\) .*: a photo's shape is \(H, W\), or has 1, 3"),
        (torch.zeros(3, 5, 5, dtype=torch.int64), "type torch.int64: a photo's type is uint8"),
        (b"", "photo of 0 bytes: empty"),
        (io.BytesIO(), "gives no bytes: rewind it with seek"),
        (b"no photo", "photo of 8 bytes: not a photo in a format"),
        (io.StringIO("no photo"), "gives text, not bytes: open it with mode 'rb'"),
        (Given(None), "file object: gives NoneType, not bytes"),
        (7, "not a int"),
        ("a\0b.jpg", "cannot be read .embedded null"),
    ],
)
def test_arrays_and_objects_that_are_no_photo_are_refused(wrong, message):
    with pytest.raises(SatError, match=message):
        open_photo(wrong)


def test_files_that_are_no_photo_are_refused_by_name(scene, tmp_path):
    scene.resize((230, 170)).save(tmp_path / "whole.jpg")
    whole = (tmp_path / "whole.jpg").read_bytes()
    scene.save(tmp_path / "broken.png")
    broken = bytearray((tmp_path / "broken.png").read_bytes())
    broken[60:80] = bytes(20)
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "moved.jpg")
    for name, content, message in (
        ("absent.jpg", b"", "no such file"),
        ("gone.jpg", b"", "a link to a file that does not exist"),
        ("scan.jpg", b"%PDF-1.7", "a PDF, not a photo"),
        ("photos.zip", b"PK\3\4", r"a ZIP archive \(unpack it"),
        ("", b"", "a folder"),
        ("cut.jpg", whole[: len(whole) * 2 // 3], "damaged"),
        ("empty.jpg", b"", "empty"),
        ("page.jpg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a photo in a format that is read here"),
        # Ghostscript must never see this one.
        ("print.jpg", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 5 3\n", "not a photo in a format that is read"),
        ("broken.png", broken, "damaged"),
    ):
        if content or name == "empty.jpg":
            (tmp_path / name).write_bytes(content)
        with pytest.raises(SatError, match=message) as refusal:
            open_photo(tmp_path / name)
        assert str(tmp_path / name) in str(refusal.value)


LARGE = zlib.compress(bytes(100_000_000))  # 97 kilobytes
TEXT = chunk(b"tEXt", b"Description\0the harbour", checksum=7)


@pytest.mark.parametrize(
    ("added", "at_end", "left_out"),
    [
        (chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + LARGE), False, "iTXt"),
        (chunk(b"zTXt", b"history\0\0" + LARGE), False, "zTXt"),
        (chunk(b"zTXt", b"history\0\0" + LARGE), True, "zTXt"),
        (chunk(b"iCCP", b"icc\0\0" + LARGE), False, "iCCP"),
        (TEXT, False, "tEXt"),
        (chunk(b"pHYs", bytes(9), checksum=7) + TEXT, False, "pHYs, tEXt"),
        (chunk(b"zTXt", b"history\0\0no zlib"), False, None),
    ],
    ids="iTXt zTXt zTXt-end iCCP checksum two broken".split(),
)
def test_what_is_wrong_beside_the_pixels_of_a_png_is_passed_over(added, at_end, left_out, scene):
    file = io.BytesIO()
    scene.save(file, "PNG", exif=turned(6), dpi=(72, 72))
    content = file.getvalue()
    at = len(content) - 12 if at_end else 33
    tracemalloc.start()
    photo = open_photo(content[:at] + added + content[at:])
    assert tracemalloc.get_traced_memory()[1] < 20_000_000  # nothing large is unpacked
    tracemalloc.stop()
    assert np.array_equal(array(photo), array(open_photo(content))) and photo.width == HEIGHT  # turned, as it should be
    assert photo.info.get(PASSED_OVER) == left_out
    with pytest.raises(SatError, match=r"damaged|cannot be read|not a photo"):
        open_photo(content[:33] + added + content[33:-60])


@pytest.mark.parametrize("mode", ["L", "RGB"])
@pytest.mark.parametrize(
    "options",
    [{"quality": 50}, {"quality": 95}, {"restart_marker_blocks": 5}, {"progressive": True}],
    ids=["plain", "fine", "restarts", "progressive"],
)
def test_of_a_jpeg_that_breaks_off_only_one_with_all_pixels_is_read(mode, options):
    noise = Image.fromarray(np.random.default_rng(7).integers(0, 256, (19, 41, 3), np.uint8)).convert(mode)
    file = io.BytesIO()
    noise.save(file, "JPEG", **options)
    content = file.getvalue()
    whole = array(open_photo(content))
    for missing in range(1, 160):
        if missing <= 2:  # of the mark of its end
            photo = open_photo(content[:-missing])
            assert np.array_equal(array(photo), whole) and photo.info[PASSED_OVER]
        else:
            with pytest.raises(SatError, match="damaged"):
                open_photo(content[:-missing])
    assert PASSED_OVER not in open_photo(content).info


def test_in_a_prepared_process_a_large_photo_opens_without_a_warning_and_a_far_larger_one_is_refused(tmp_path):
    Image.new("L", (40, 30)).save(tmp_path / "large.png")
    program = (
        "import sys; from PIL import Image; from show_attend_tell.data.photos import open_photo\n"
        "from show_attend_tell.threads import prepare_process; prepare_process()\n"
        "Image.MAX_IMAGE_PIXELS = 1000\n"
        "for photo in (sys.argv[1], open(sys.argv[1], 'rb').read()): print(open_photo(photo).size)\n"
        "Image.MAX_IMAGE_PIXELS = 100\n"
        "try: open_photo(sys.argv[1])\n"
        "except Exception as error: print(error)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "large.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("(40, 30)\n" * 2) and done.stderr == ""
    assert "large.png: too many pixels" in done.stdout


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    names = ("b.JPG", "a.png", "notes.txt", "odd[1].jpg", "inner/c.jpg", "inner/.d.jpg", "none/notes.txt", "b.JPG.xmp")
    for name in (*names, ".hidden.jpg", "._a.png", ".cache/e.jpg", "inner/deep/f.heic"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "inner" / "loop").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_photos_in_a_folder_without_hidden_names_and_links(folder):
    (folder / "gone.jpg").symlink_to("moved.jpg")
    expected = ("a.png", "b.JPG", "inner/c.jpg", "inner/deep/f.heic", "odd[1].jpg")
    assert photos_in(folder) == [folder / name for name in expected]
    assert photos_in(folder / "none") == []


@pytest.mark.parametrize("shape", [(500, 333), (333, 500), (211, 211), (640, 97), (19, 53)])
def test_crop_is_the_centre_of_the_resized_photo(shape):
    noise = np.random.default_rng(3).integers(0, 256, (shape[1] // 8 + 1, shape[0] // 8 + 1, 3)).astype(np.uint8)
    photo = Image.fromarray(noise).resize(shape, Image.Resampling.BICUBIC)
    preprocessing = Preprocessing(mean=(0, 0, 0), std=(1, 1, 1))
    pixels = (preprocessing(photo).numpy().transpose(1, 2, 0) * 255).round()
    # Transcribed from the paper, section 4.3, the slow way.
    resized = [256 * side // min(shape) for side in shape]
    left, top = (round((side - 224) / 2) for side in resized)
    expected = photo.resize((resized[0], resized[1]), Image.Resampling.BILINEAR)
    assert np.abs(pixels - array(expected.crop((left, top, left + 224, top + 224)))).max() <= 1


def test_seen_is_the_rectangle_of_the_original():
    """A photo that is bright only inside `seen` is bright all over for the encoder."""
    width, height = 901, 512
    left, top, right, bottom = Preprocessing().seen(width, height)
    photo = np.zeros((height, width), np.uint8)
    photo[int(top) : int(bottom), int(left) + 1 : int(right)] = 255
    pixels = Preprocessing(mean=(0, 0, 0), std=(1, 1, 1))(open_photo(photo))
    assert pixels[:, 1:-1, 2:-2].min() == 1
    assert Preprocessing()(Image.new("RGB", (3, 60000))).shape == (3, 224, 224)
    for side in (17, 100, 224, 1023):  # never beyond the photo, whatever the rounding
        for other in range(17, 60):
            box = Preprocessing(size=37).seen(side, other)
            assert box[0] >= 0 and box[1] >= 0 and box[2] <= side and box[3] <= other


@pytest.mark.parametrize("resize", ["squash", "crop"])
def test_a_crop_is_a_window_of_what_is_seen(resize):
    square = Preprocessing(size=64, resize=resize, mean=(0, 0, 0), std=(1, 1, 1))
    columns, rows = np.meshgrid(np.arange(300), np.arange(200))
    grid = np.stack([columns / 299, rows / 199, 0 * rows], axis=2)  # red tells the column, green the row
    photo = open_photo(grid)
    left, top, right, bottom = square.seen(300, 200)
    found, mirrored = [], 0
    for number in range(60):
        red, green, _ = square(photo, f"crop-{1 + number % 2}", f"photo{number // 2}.jpg")
        mirrored += bool(red[0, 0] > red[0, -1])
        low, high, first, last = red.min() * 300, red.max() * 300, green[0, 0] * 200, green[-1, 0] * 200
        assert left - 2 < low < high < right + 2 and top - 2 < first < last < bottom + 2
        shares = float((high - low) / (right - left)), float((last - first) / (bottom - top))
        assert all(0.75 * 0.97 < share < 1 for share in shares)  # the outermost pixels' centres lie within the window
        found.append((*shares, float(low), float(first)))
    assert 15 < mirrored < 45 and len(set(found)) == 60  # another for every number and every name
    assert max(np.ptp(np.array(found), axis=0)[:2]) > 0.15
    assert torch.equal(square(photo, "flipped"), square(photo).flip(-1))


def test_a_rendering_is_a_copy_as_photos_are_found(scene):
    square = Preprocessing(size=96, resize="squash-256", mean=(0, 0, 0), std=(1, 1, 1))
    photograph = scene.resize((230, 170))
    original = square(photograph)
    mirrored, colors = 0, []
    for number in range(24):
        view, name = f"rendered-{1 + number % 2}", f"photo{number // 2}.jpg"
        copy = square(photograph, view, name)
        assert copy.min() >= 0 and copy.max() <= 1
        same, flipped = (float(np.corrcoef(copy.ravel(), each.ravel())[0, 1]) for each in (original, original.flip(-1)))
        assert (flipped > same) == mirrors(view, name)
        mirrored += flipped > same
        colors.append(float(copy.mean()))
    assert 4 < mirrored < 20 and np.ptp(colors) > 0.05 and len(set(colors)) == 24


@pytest.mark.parametrize(
    ("resize", "view", "means"),
    [
        ("squash", "original", (-1.082, 1.196, -0.991, 1.369)),
        ("crop", "flipped", (0.819, -0.705, -0.831, 1.206)),
        ("squash", "crop-1", (1.324, -0.4, -1.012, 1.314)),
        ("crop", "crop-2", (-0.577, 0.659, -0.857, 0.844)),
        ("squash-256", "original", (-1.082, 1.196, -0.991, 1.369)),
        ("squash", "rendered-1", (1.503, -0.821, -0.874, 1.688)),
    ],
)
def test_pixels_change_only_with_the_version(scene, resize, view, means):
    """If this fails since the pixels are changed on purpose: add 1 to `PREPROCESSING_VERSION`, which feature caches are
    known by, and write the new figures here."""
    assert PREPROCESSING_VERSION == 3
    pixels = Preprocessing(size=12, resize=resize)(scene, view, "photo.png")
    found = [pixels[0, :, :6].mean(), pixels[0, :, 6:].mean(), pixels[1, :6].mean(), pixels[1, 6:].mean()]
    assert [float(value) for value in found] == pytest.approx(means, abs=0.02)


def test_preprocessing_survives_json_and_refuses_nonsense():
    preprocessing = Preprocessing(size=37, resize="squash", mean=(0.5, 0.25, 0.1), std=(1, 2, 3))
    assert Preprocessing(**json.loads(json.dumps(preprocessing.to_dict()))) == preprocessing
    with pytest.raises(SatError, match="std is 0: give 3 values, each a number above 0"):
        Preprocessing(**{**preprocessing.to_dict(), "std": (1, 0, 1)})
