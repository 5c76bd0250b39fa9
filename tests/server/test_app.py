"""The paths of the API: they answer what a `Captioner` answers, and refuse the rest with a reason."""

import dataclasses
import io
import re

import numpy as np
import pytest
from builders import shape_photo
from PIL import Image
from pydantic import TypeAdapter
from serving import PHOTOS, RED, SCENES, assert_safe, form, refused

from show_attend_tell.errors import SatError
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.server import schema
from show_attend_tell.server.app import make_app
from show_attend_tell.server.limits import Limits


def test_a_caption_is_what_the_captioner_says(server, captioners):
    response = server.ask(*PHOTOS[:3])
    assert response.status_code == 200
    answers = response.json()
    TypeAdapter(list[schema.CaptionAnswer]).validate_python(answers)
    for number, (answer, scene) in enumerate(zip(answers, SCENES[:3], strict=True)):
        expected = captioners[0](shape_photo(*scene)).to_dict() | {"source": f"photo{number}.png"}
        assert answer["log_probability"] == pytest.approx(expected.pop("log_probability"), abs=1e-5)
        assert np.allclose(answer.pop("attention"), expected.pop("attention"), atol=2e-6)
        for name in ("gate", "word_log_probabilities"):
            assert np.allclose(answer.pop(name), expected.pop(name), atol=1e-5)
        for other, wanted in zip(answer.pop("alternatives"), expected.pop("alternatives"), strict=True):
            assert other["caption"] == wanted["caption"]
        assert answer["evidence"] is None
        assert {**answer, "log_probability": None} == {**expected, "log_probability": None}
    assert len({answer["caption"] for answer in answers}) > 1


def test_what_was_passed_over_in_a_photo_is_in_its_answer(server):
    content = PHOTOS[0][:33] + b"\0\0\0\x09pHYs" + bytes(13) + PHOTOS[0][33:]
    (answer,) = server.ask(content).json()
    assert answer["passed_over"] == "pHYs"


def test_every_setting_of_generation_can_be_asked_for(server, captioners):
    assert {*schema.SETTINGS, "filters"} == {field.name for field in dataclasses.fields(GenerationConfig)}
    sampled = {"attention_mode": "sample", "seed": 3}
    searched = {"beam_size": 100, "num_captions": 2, "length_penalty": 0.7, "max_length": 6}
    searched |= {"allow_repetitions": True, "attention_mode": "argmax"}
    for settings in (sampled, searched):
        asked = {name: str(value).lower() for name, value in settings.items()}
        (answer,) = server.ask(RED, **asked).raise_for_status().json()
        expected = captioners[0](shape_photo(*SCENES[0]), **settings)
        assert answer["words"] == expected.words and answer["settings"] == expected.settings
        assert [other["caption"] for other in answer["alternatives"]] == [text for text, _ in expected.alternatives]


def test_several_models_answer_photo_by_photo(server, captioners):
    answers = server.ask(*PHOTOS[:2], model=["small-hard", "small-soft"], attention="false", evidence="true").json()
    assert [answer["settings"]["model"] for answer in answers] == ["small-hard", "small-soft"] * 2
    assert [answer["source"] for answer in answers] == ["photo0.png"] * 2 + ["photo1.png"] * 2
    for answer, captioner in zip(answers, [captioners[1], captioners[0]] * 2, strict=True):
        scene = SCENES[int(answer["source"][5])]
        expected = captioner(shape_photo(*scene), evidence=True)
        assert answer["words"] == expected.words
        np.testing.assert_allclose(answer["evidence"], expected.evidence, atol=1e-5)
        assert answer["attention"] is None and answer["gate"] is not None


def test_the_answer_as_a_picture_and_as_a_page(server):
    picture = server.ask(RED, format="png")
    assert picture.headers["content-type"] == "image/png"
    alpha = server.ask(RED, format="png", shown="attention")
    assert alpha.is_success and alpha.content != picture.content
    with Image.open(io.BytesIO(picture.content)) as image:
        assert image.width > 50
    page = server.ask(RED, format="html", model=["small-soft", "small-hard"])
    assert page.headers["content-type"].startswith("text/html")
    assert "<script" in page.text and "small-hard" in page.text and "data:image/jpeg" in page.text
    refused(server.ask(*PHOTOS[:2], format="png"), 422, "html")


def test_log_probabilities_are_the_captioner_s(server, captioners):
    texts = ["Word3, word4!", "word5 zebra"]
    asked = {"path": "log-probabilities", "captions": texts, "model": "small-hard", "attention_mode": "argmax"}
    answers = server.ask(*PHOTOS[:2], **asked).json()
    TypeAdapter(list[schema.ScoresAnswer]).validate_python(answers)
    assert answers[0]["captions"][0]["words"] == ["word3", "word4"]
    assert [scored["unknown"] for scored in answers[1]["captions"]] == [[], ["zebra"]]
    for answer, scene in zip(answers, SCENES[:2], strict=True):
        for scored, text in zip(answer["captions"], texts, strict=True):
            expected = captioners[1].score(shape_photo(*scene), text, attention_mode="argmax")
            assert scored["log_probability"] == pytest.approx(expected, abs=1e-4)
    for text, why in ((" .", "no word"), ("a " * 101, "one has 101 words: at most 100")):
        refused(server.ask(RED, path="log-probabilities", captions=text), 422, why)


def test_what_was_hidden_is_the_captioner_s(server, captioners):
    asked = {"model": "small-hard", "beam_size": 2}
    caption = captioners[1](shape_photo(*SCENES[0]), evidence=True, beam_size=2)
    for word, place in (("0", None), (None, [[0, 0, 20, 30]])):
        expected = captioners[1].hide(caption, word and int(word), place=place)
        answers = server.ask(RED, path="hidden", **asked, word=word or "", place=str(place or "")).json()
        TypeAdapter(list[schema.HiddenAnswer]).validate_python(answers)
        assert answers[0]["before"] == str(caption) and answers[0]["lines"] == expected.lines
        assert answers[0]["here"]["mask"] == expected.to_dict()["here"]["mask"]
        again = server.ask(RED, path="hidden", **asked, place=str(answers[0]["here"]["mask"])).json()
        assert again[0]["here"]["caption"] == answers[0]["here"]["caption"]
    for word, why in (("zebra", "no word"), ("9" * 5000, "no word"), ("", "there is nothing to hide")):
        refused(server.ask(RED, path="hidden", word=word), 422, why)
    for place, why in (("{", "not JSON"), ("[" * 10**5, "not JSON"), ("[1568.5, 1567.5]", "give boxes")):
        refused(server.ask(RED, path="hidden", place=place), 422, why)
    words = [str(captioners[1](shape_photo(*scene), beam_size=2)) for scene in SCENES[:2]]
    word, *_ = set(words[0].split()) - set(words[1].split())
    both = server.ask(*PHOTOS[:2], path="hidden", **asked, word=word)  # the second caption lacks it
    assert both.status_code == 207 and both.json()[0]["word"] == word
    assert "no word" in both.json()[1]["error"]["detail"]


def test_models_and_health(web):
    found = web.get("/v1/models").json()
    schema.ModelsAnswer.model_validate(found)
    assert [model["name"] for model in found["models"]] == ["small-soft", "small-hard"]
    assert found["models"][1]["attention"] == "hard" and found["models"][0]["card"].startswith("# small-soft")
    assert found["limits"]["request_photos"] == Limits().request_photos
    assert web.get("/healthz").json() == {"status": "ok", "waiting": 0}


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/static/captions.js", "/healthz", "/v1/models"])
def test_head_is_answered_as_get_is_without_the_body(web, path):
    found, full = web.head(path), web.get(path)
    assert found.status_code == 200 and found.content == b"" and full.content
    assert dict(found.headers) == {**full.headers, "date": found.headers["date"]}
    assert_safe(found)
    refused(web.get("/v1/captions"), 405)
    assert web.head("/v1/captions").status_code == 405


# The pages and the manual


def test_the_pages_load_from_here_alone(web):
    for path in ("/", "/docs"):
        page = web.get(path)
        assert_safe(page)
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self';" in policy and "unsafe" not in policy
        assert "//" not in page.text
        assets = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert len(assets) > 4 and not any(asset.startswith("/") for asset in assets)  # for below a path
        for asset in assets:
            assert_safe(web.get(f"/{asset}").raise_for_status())
        assert not re.search(r"<script>|<style>|\sstyle=|\son\w+=", page.text)
    assert web.get("/static/captions.js").headers["content-type"].startswith("text/javascript")
    for path in ("/nowhere", "/static/../app.py", "/static/swagger-ui/../core.py", "/static/swagger-ui/no.js"):
        refused(web.get(path), 404)


def test_the_manual_is_made_from_the_document_which_says_its_own_address(web, server):
    document = web.get("/openapi.json").json()
    assert set(document["paths"]) == {"/v1/captions", "/v1/hidden", "/v1/log-probabilities", "/v1/models", "/healthz"}
    (body,) = document["paths"]["/v1/captions"]["post"]["requestBody"]["content"].items()
    fields = document["components"]["schemas"]["CaptionForm"]["properties"]
    assert body[0] == "multipart/form-data" and {"photos", "model", *schema.SETTINGS} <= set(fields)
    assert fields["beam_size"]["type"] == "integer" and "greedy" in fields["beam_size"]["description"]
    for host in (f"127.0.0.1:{server.port}", "localhost:8123"):
        document = web.get("/openapi.json", headers={"host": host}).json()
        assert document["servers"] == [{"url": "."}]  # from where the document is, also below a path
        assert f"http://{host}/v1/captions" in document["info"]["description"]
    assert '"openapi.json"' in web.get("/static/docs.js").text


@pytest.mark.parametrize(
    ("request_", "status", "words"),
    [
        ({"data": {"beam_size": "0"}}, 422, ["beam_size: give a whole number from 1", "'0'"]),
        ({"data": {"beam_size": "101"}}, 422, ["beam_size", "101", "at most 100"]),
        ({"data": {"beam_size": "2", "num_captions": "3"}}, 422, ["num_captions is 3", "larger beam_size"]),
        ({"data": {"length_penalty": "nan"}}, 422, ["length_penalty: give a number from 0"]),
        ({"data": {"beam_size": "1" * 3000}}, 422, ["beam_size", "111..."]),
        ({"params": {"beam_size": 3, "attention": "false"}}, 422, ["attention, beam_size in the address"]),
        ({"data": {"model": "nobody"}}, 422, ["nobody", "small-soft, small-hard"]),
        ({"data": {"model": ["small-soft"] * 9}}, 422, ["model"]),
        ({"data": {"attention_mode": "away"}}, 422, ["attention_mode", "mean", "'away'"]),
        ({"data": {"url": "http://example.org/a.jpg"}}, 422, ["url: there is no such field", "/docs"]),
        ({"files": [("photos", (None, "text"))]}, 422, ["as files"]),
        ({"files": [("photo", ("a.png", RED))]}, 422, ["photo: there is no such field"]),
        ({"files": [("beam_size", (None, "1"))]}, 422, ["no photo"]),
        ({"files": form(*[RED] * 17)}, 413, ["17 photos", "at most 16"]),
        ({"files": None, "json": {"photos": ["aGk="]}}, 415, ["application/json", "multipart/form-data"]),
        ({"files": None, "content": b"xx", "headers": {"content-type": "multipart/form-data"}}, 400, ["boundary"]),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(web, request_, status, words):
    refused(web.post("/v1/captions", **{"files": form(RED), **request_}), status, *words)


def test_two_models_of_one_name_cannot_be_served(captioners):
    with pytest.raises(SatError, match="two models are called small-soft"):
        make_app([captioners[0], captioners[0]])
