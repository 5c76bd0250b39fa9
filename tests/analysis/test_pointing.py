"""Whether a model attends to what it names: the measure against hand-made attention, and the commands end to end."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import captioner_of, small_checkpoint
from commands import refused, sat
from numpy.typing import NDArray

from show_attend_tell.analysis.pointing import Cover, ScenePointing, point_in_scenes
from show_attend_tell.analysis.scenes import COLORS, SHAPES, Scene, read_scenes, write_scenes
from show_attend_tell.backends.torch import decoder_weights
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.decoder import AttentionDecoder
from show_attend_tell.training.presets import preset
from show_attend_tell.vision.encoder import load_encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "scenes"
    write_scenes(folder, 30, seed=5, show=False)
    return folder


@pytest.fixture(scope="module")
def captioner() -> Captioner:
    """An untrained model on the small encoder."""
    vocabulary = Vocabulary([*COLORS, *SHAPES, *"a and from left to right then there is of".split()])
    encoder = load_encoder("small", resize="squash")
    config = replace(preset("scenes", "soft").decoder, annotation_size=64, vocabulary_size=len(vocabulary))
    torch.manual_seed(1)
    weights = decoder_weights(AttentionDecoder(config))
    record = EncoderRecord.of(encoder)
    return captioner_of(Checkpoint(config=config, weights=weights, vocabulary=vocabulary, encoder=record), encoder)


def test_a_box_covers_the_locations_that_it_overlaps() -> None:
    cover = Cover((10, 0, 60, 30), (3, 5))  # locations of 10 × 10 pixels, from 10 on
    share = cover.share((15, 12, 40, 20)).reshape(3, 5)
    np.testing.assert_allclose(share, [[0, 0, 0, 0, 0], [0.4, 0.8, 0.8, 0, 0], [0, 0, 0, 0, 0]])
    assert cover.share((0, 0, 70, 40)).tolist() == [1.0] * 15 and not cover.share((0, 0, 10, 30)).any()
    centred = cover.centred((15, 6, 35, 25)).reshape(3, 5)  # the edge at 15 counts, those at 35 and 25 do not
    assert centred.tolist() == [[False] * 5, [True, True, False, False, False], [False] * 5]


def reading(maps: Callable[[Scene, int | None], NDArray[Any]], folder: Path, split: str, right: bool) -> Any:
    """Reads sentence after sentence of the split with the attention that ``maps`` gives."""
    scenes = [
        scene for number, scene in enumerate(read_scenes(folder).values()) if number % 10 == (9, 8)[split == "val"]
    ]
    sentences: Iterator[Any] = iter([(scene, sentence) for scene in scenes for sentence in scene.sentences])

    def alpha_of(*given: object) -> tuple[NDArray[Any], NDArray[Any]]:
        scene, sentence = next(sentences)
        alpha = np.stack([maps(scene, number) for number in (*sentence.objects, None)])
        return alpha, np.full(len(alpha), right)

    return alpha_of


def centre(scene: Scene, number: int | None) -> NDArray[Any]:
    """All attention on the location of 8 × 8 pixels under the middle of an object's box."""
    alpha = np.zeros((8, 8))
    left, top, right, bottom = scene.objects[number or 0].box
    alpha[int((top + bottom) // 16), int((left + right) // 16)] = 1
    return alpha.ravel()


def means(found: ScenePointing, kind: str = "all") -> dict[str, float]:
    figures = found.kinds[kind].means
    assert all(figure.interval().low <= figure.value <= figure.interval().high for figure in figures.values())
    return {name: figure.value for name, figure in figures.items()}


def test_attention_on_the_object_even_and_on_another(folder: Path, captioner: Captioner) -> None:
    def measured(maps: Any, split: str = "test", right: bool = True) -> ScenePointing:
        alpha_of = reading(maps, folder, split, right)
        return point_in_scenes(captioner, folder, split=split, alpha_of=alpha_of, show=False)

    on_it = measured(centre)
    scenes = [scene for number, scene in enumerate(read_scenes(folder).values()) if number % 10 == 9]
    objects = sum(len(scene.objects) for scene in scenes)
    area = np.mean([(t.box[2] - t.box[0]) ** 2 / 64**2 for scene in scenes for t in scene.objects])
    assert (on_it.photos, on_it.attention_mode, on_it.split) == (3, "mean", "test")
    words = {kind: found.words for kind, found in on_it.kinds.items()}
    assert words == {"all": 2 * 3 * objects, "color": 3 * objects, "shape": 3 * objects}
    every = means(on_it)
    assert every["share"] > 0.9 and every["elsewhere"] < 0.1 and every["right"] == 1
    assert every["share_chance"] == pytest.approx(area) and every["hit"] > 5 * every["hit_chance"]

    even = measured(lambda scene, number: np.full(64, 1 / 64), split="val", right=False)
    for kind in ("all", "color", "shape"):
        found = means(even, kind)
        assert found["share"] == pytest.approx(found["share_chance"]) and found["right"] == 0
        assert found["elsewhere"] == pytest.approx(found["elsewhere_chance"]) and found["elsewhere"] > found["share"]

    on_another = means(measured(lambda scene, number: centre(scene, ((number or 0) + 1) % len(scene.objects))))
    assert on_another["share"] < 0.1 and on_another["elsewhere"] > 0.9 and on_another["hit"] < 0.2


def test_a_model_is_measured_by_its_attention_mode(folder: Path, captioner: Captioner) -> None:
    checkpoint = captioner.checkpoint
    generation = checkpoint.generation.merge(attention_mode="argmax")
    config = replace(checkpoint.config, attention="hard")  # type: ignore[call-arg]
    other = captioner_of(replace(checkpoint, config=config, generation=generation), captioner.backend.encoder)
    found = point_in_scenes(other, folder, show=False)
    assert found.attention_mode == "argmax"

    def figures(**options: Any) -> Any:
        return point_in_scenes(captioner, folder, show=False, **options).to_dict()["all"]

    assert found.to_dict()["all"] == figures(attention_mode="argmax") != figures()
    sampled = [figures(attention_mode="sample", seed=seed) for seed in (0, 0, 1)]
    assert sampled[0] == sampled[1] != sampled[2]


def test_what_cannot_be_measured_is_refused(folder: Path, captioner: Captioner, tmp_path: Path) -> None:
    (tmp_path / "images").symlink_to(folder / "images")
    (tmp_path / "captions.csv").write_bytes((folder / "captions.csv").read_bytes())
    with pytest.raises(SatError, match=r"boxes\.json is not there"):
        point_in_scenes(captioner, tmp_path, show=False)
    (tmp_path / "boxes.json").write_text("{}")
    with pytest.raises(SatError, match=r"nothing of the photo scene00009\.png"):
        point_in_scenes(captioner, tmp_path, show=False)
    silent = {name: replace(scene, sentences=()).to_dict() for name, scene in read_scenes(folder).items()}
    (tmp_path / "boxes.json").write_text(json.dumps(silent))
    with pytest.raises(SatError, match="no word of the split 'val' names an object"):
        point_in_scenes(captioner, tmp_path, split="val", show=False)
    smaller = {name: {**scene.to_dict(), "size": (128, 128)} for name, scene in read_scenes(folder).items()}
    (tmp_path / "boxes.json").write_text(json.dumps(smaller))
    with pytest.raises(SatError, match=r"boxes in 128 × 128 pixels for the photo scene\d+\.png, which has 64 × 64"):
        point_in_scenes(captioner, tmp_path, show=False)
    encoder = captioner.backend.encoder
    uniform = captioner_of(small_checkpoint(encoder, attention="uniform"), encoder, name="uniform")
    with pytest.raises(SatError, match="uniform has no attention"):
        point_in_scenes(uniform, tmp_path / "nowhere", show=False)


def test_the_commands_from_scenes_to_figures(tmp_path: Path) -> None:
    data, model = tmp_path / "scenes", tmp_path / "model"
    assert "20 photos with three sentences each" in sat("analyze", "scenes", data, "--photos", 20, "--seed", 2).stdout
    trained = [data, "--attention", "hard", "--preset", "scenes", "--encoder", "small", "--resize", "squash"]
    sat("train", *trained, "--encoder-lr", 1e-3, "--epochs", 1, "--output", model, "--cache", tmp_path)
    untouched = load_encoder("small", resize="squash")
    assert Checkpoint.load(model).encoder.digest != untouched.digest  # it learnt, and was kept

    # what begins with it begins with its encoder, which stays with the model also when it is not trained further
    sat("train", *trained, "--init-from", model, "--epochs", 1, "--output", tmp_path / "next", "--cache", tmp_path)
    assert sat("analyze", "pointing", data, "--model", tmp_path / "next")
    assert Checkpoint.load(tmp_path / "next").encoder.digest == Checkpoint.load(model).encoder.digest

    table = sat("analyze", "pointing", data, "--model", model, "--json", tmp_path / "figures.json").stdout
    assert "attention mode argmax: 2 photos" in table and "chance" in table
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert f"{100 * figures['all']['share']['mean']:.1f} % [" in table.splitlines()[2]
    assert json.loads(sat("analyze", "pointing", data, "--model", model, "--json", "-").stdout) == figures
    assert "add --model, with a model that was trained on scenes" in refused("analyze", "pointing", data)
    given = ("analyze", "pointing", data, "--model", model, "--html", tmp_path / "page.html")
    assert "--html: it does nothing for generated scenes: leave it out" in refused(*given)
