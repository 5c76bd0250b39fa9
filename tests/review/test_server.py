"""The server of a review: who may ask, two pages at once, captions in the background, one server a table."""

import io
import json
import signal
from typing import Any

from builders import shape_photos
from commands import refused, sat
from PIL import Image
from reviewing import CAPTIONS, captions, opened, serving_review, write_table
from serving import client, until

from show_attend_tell.errors import SatError
from show_attend_tell.review.deciding import written
from show_attend_tell.review.table import read_table
from show_attend_tell.review.thumbnails import raw_alone, thumbnail

WEB = client(headers={"Connection": "close"})


def post(address: str, path: str, **asked: Any) -> Any:
    return WEB.post(address + path, content=json.dumps(asked)).json()


def numbers(address: str) -> dict[str, int]:
    """The rows' numbers by their names."""
    ids = post(address, "order", sort="name")["ids"]
    return {row["name"]: row["id"] for row in post(address, "rows", ids=ids)}


def test_nobody_else_is_answered(tmp_path):
    table = write_table(tmp_path)
    with serving_review(table) as server:
        root = f"http://127.0.0.1:{server.server_port}/"
        assert server.server_address[0] == "127.0.0.1"
        for address, host in ((root, None), (f"{root}wrong/", None), (server.address, "elsewhere.example")):
            headers = {} if host is None else {"Host": host}
            for path in ("", "review.js", "thumbnail?0"):
                assert WEB.get(address + path, headers=headers).status_code == 404
            assert WEB.post(f"{address}undo", content="{}", headers=headers).status_code == 404
        assert (tmp_path / "captions.csv.address").stat().st_mode & 0o077 == 0
        page = WEB.get(server.address)
        assert page.status_code == 200 and "script-src 'self'" in page.headers["Content-Security-Policy"]
        assert WEB.post(f"{server.address}decide", content="{}").status_code == 400
        for wrong in ({}, {"id": 99, "action": "accept"}, {"id": 0, "action": "burn"}, {"id": 0, "action": "write"}):
            assert "problem" in post(server.address, "decide", **wrong)
    assert not (tmp_path / "captions.csv.address").exists()


def test_photos_are_captioned_in_the_background(tmp_path):
    write_table(tmp_path)
    photos = [tmp_path / f"{name}.png" for name in CAPTIONS]
    damaged = tmp_path / "damaged.png"
    damaged.write_text("no photo")
    table = tmp_path / "new.csv"
    with serving_review(table, [*photos, damaged]) as server:
        ids = numbers(server.address)
        until(lambda: post(server.address, "state")["captioning"] == 0)
        row, wrong = post(server.address, "rows", ids=[ids["a.png"], ids["damaged.png"]])
        assert row["caption"] == "a a here" and wrong["error"] == "damaged"
        assert row["words"][1] == {"text": "a", "instead": ["house", "owl"]}
        assert [choice["text"] for choice in row["choices"]] == ["a house here", "a boat here"]
        thumbnail = WEB.get(f"{server.address}thumbnail?{ids['a.png']}")
        assert Image.open(io.BytesIO(thumbnail.content)).size == (60, 40)
        assert WEB.get(f"{server.address}thumbnail?{ids['damaged.png']}").status_code == 404
        drawn = post(server.address, "draw", judge=True)["number"]
        assert drawn == 5 and post(server.address, "rows", ids=[ids["b.png"]])[0]["caption"] == ""
        assert "problem" in post(server.address, "decide", id=ids["b.png"], action="accept")
        post(server.address, "decide", id=ids["b.png"], action="write", text="two cats here")
    assert {row.key: row.decided.split for row in read_table(table).rows}["b.png"] == "val"
    assert opened(table).rows[0].alternatives == ["a house here", "a boat here"]  # kept in the journal


def test_thumbnails_are_upright_small_and_kept(tmp_path):
    rotated = Image.Exif()
    rotated[274] = 6
    photo = tmp_path / "a.jpg"
    Image.new("CMYK", (2000, 1000)).save(photo, exif=rotated)
    cache = tmp_path / "cache"
    content = thumbnail(photo, cache)
    assert Image.open(io.BytesIO(content)).size == (240, 480)
    assert [file.read_bytes() for file in cache.iterdir()] == [content] == [thumbnail(photo, cache)]
    for name in ("a.CR2", "b.nef"):
        (tmp_path / name).touch()
    assert [file.name for file in raw_alone(tmp_path, [photo])] == ["b.nef"]


def test_a_model_that_cannot_be_loaded_is_said_on_the_page(tmp_path):
    def load() -> Any:
        raise SatError("no such model")

    with serving_review(write_table(tmp_path), load=load) as server:
        post(server.address, "rows", ids=[0])
        until(lambda: "no such model" in post(server.address, "state")["problem"])


def test_a_second_command_joins_the_first_and_both_kinds_of_end_lose_nothing(tmp_path, start):
    table = write_table(tmp_path)
    command = ("-m", "show_attend_tell", "review", table, "--no-browser")
    first, address = start(*command)
    assert sat("review", table, "--no-browser").output.split(" ")[0] == address
    post(address, "decide", id=0, action="write", text="a blue dog")
    first.kill()
    first.wait()
    assert captions(opened(table))["a.png"] == ("a blue dog", "edited")
    second, address = start(*command)
    post(address, "decide", id=1, action="write", text="three cats")
    second.send_signal(signal.SIGTERM)
    assert second.wait(timeout=60) == 0
    assert "three cats" in table.read_text(encoding="utf-8") and "a blue dog" in table.read_text(encoding="utf-8")


def test_what_the_command_refuses(tmp_path):
    assert "is not there" in refused("review", tmp_path / "nothing")
    assert ".csv" in refused("review", tmp_path, "--output", tmp_path / "table.xlsx")
    assert "no photo" in refused("review", tmp_path)
    assert "--output" in refused("review", write_table(tmp_path).parent, "--output", "/proc/captions.csv")


def test_sat_caption_goes_on_with_a_table_that_was_reviewed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "photos"
    *_, last = shape_photos(folder, 4)
    late = last.rename(tmp_path / last.name)
    settings = ("--generation", "beam_size=1", "--generation", "rerank_weight=0")
    command = ("caption", "photos", "--output", "photos/captions.csv", *settings)
    sat(*command)
    late.rename(last)
    monkeypatch.chdir(folder)  # where nobody calls photos by these names
    table = folder / "captions.csv"
    review = opened(table, sorted(folder.glob("*.png")))
    keys = [f"photos/photo{number}.png" for number in range(4)]
    assert [row.key for row in review.rows] == keys
    review.decide("write", {key: written(review.by_key[key], "mine") for key in keys[:2]})
    review.save()
    monkeypatch.chdir(tmp_path)
    assert "4 photos: 1 new" in sat(*command).stdout
    rows = read_table(table).rows
    assert [row.source for row in rows] == keys
    assert [row.caption == "mine" for row in rows] == [True, True, False, False]
    assert all(row.caption for row in rows)
