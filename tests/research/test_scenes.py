"""Generated scenes: what is in a picture, what is said of it, and the folder that is written."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scenes import COLORS, SHAPES, SIDE, make_scene, read_scenes, write_scenes

from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.errors import SatError

SCENES = [make_scene(3, number) for number in range(60)]


def test_a_scene_is_decided_by_its_seed_and_number() -> None:
    scene, picture = make_scene(3, 7)
    assert scene == SCENES[7][0] and picture.tobytes() == SCENES[7][1].tobytes()
    assert make_scene(4, 7)[0] != scene and make_scene(3, 8)[0] != scene


def test_two_to_four_objects_apart_unlike_and_from_left_to_right() -> None:
    assert {len(scene.objects) for scene, _ in SCENES} == {2, 3, 4}
    assert {thing.color for scene, _ in SCENES for thing in scene.objects} == set(COLORS)
    assert {thing.shape for scene, _ in SCENES for thing in scene.objects} == set(SHAPES)
    for scene, picture in SCENES:
        assert picture.size == scene.size == (SIDE, SIDE)
        assert len({thing.color for thing in scene.objects}) == len(scene.objects)
        assert len({thing.shape for thing in scene.objects}) == len(scene.objects)
        middles = [(thing.box[0] + thing.box[2]) / 2 for thing in scene.objects]
        assert all(after - before >= 6 for before, after in itertools.pairwise(middles))
        taken = np.zeros((SIDE, SIDE), int)
        for thing in scene.objects:
            left, top, right, bottom = map(int, thing.box)
            assert 0 <= left < right <= SIDE and 0 <= top < bottom <= SIDE
            taken[top:bottom, left:right] += 1
        assert taken.max() == 1


def test_each_object_is_drawn_in_its_color_inside_its_box_and_nowhere_else() -> None:
    for scene, picture in SCENES:
        pixels = np.asarray(picture, dtype=int)  # (H, W, 3)
        for thing in scene.objects:
            left, top, right, bottom = map(int, thing.box)
            near = np.abs(pixels - COLORS[thing.color]).max(-1) <= 25  # (H, W): the shade is up to 20 off
            inside = near[top:bottom, left:right]
            assert inside.mean() > 0.3 and near.sum() == inside.sum()
            assert inside.any(0).all() or thing.shape == "triangle"  # it fills its box from side to side
            assert inside[-1].any() and inside[2].any()


def test_every_sentence_names_every_object_once_in_its_place() -> None:
    for scene, _ in SCENES:
        assert len({sentence.words for sentence in scene.sentences}) == 3
        for sentence in scene.sentences:
            assert len(sentence.words) == len(sentence.objects)
            named = [(word, number) for word, number in zip(sentence.words, sentence.objects, strict=True)]
            assert [pair for pair in named if pair[1] is not None] == [
                (word, number) for number, thing in enumerate(scene.objects) for word in (thing.color, thing.shape)
            ]
            silent = {word for word, number in named if number is None}
            assert not silent & {*COLORS, *SHAPES}


def test_the_folder_is_read_as_any_data_and_its_boxes_come_back(tmp_path: Path) -> None:
    write_scenes(tmp_path / "scenes", 20, seed=3, show=False)
    dataset, scenes = read_dataset(tmp_path / "scenes"), read_scenes(tmp_path / "scenes")
    assert dataset.name == "scenes" and dataset.report.photos == {"train": 16, "val": 2, "test": 2}
    assert [scenes[example.name] for example in dataset.split("test")] == [SCENES[9][0], SCENES[19][0]]
    for example in dataset.examples:
        assert example.captions == tuple(sentence.words for sentence in scenes[example.name].sentences)
    boxes = tmp_path / "scenes" / "boxes.json"
    boxes.write_text(boxes.read_text(encoding="utf-8"), encoding="utf-8-sig")  # as some editors save it
    assert read_scenes(tmp_path / "scenes") == scenes
    write_scenes(tmp_path / "more", 23, seed=3, show=False)
    more = read_scenes(tmp_path / "more")
    assert len(more) == 23 and {name: more[name] for name in scenes} == scenes


def test_scenes_are_not_written_over_anything(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    with pytest.raises(SatError, match="is there already"):
        write_scenes(tmp_path, 20)
    assert [path.name for path in tmp_path.iterdir()] == ["note"]
