"""Generated scenes: what is in a picture, what is said of it, and the folder that is written."""

import numpy as np
from scenes import COLORS, make_scene, read_scenes, write_scenes

from show_attend_tell.data.datasets import read_dataset

SCENES = [make_scene(3, number) for number in range(60)]


def test_each_object_is_drawn_in_its_color_inside_its_box_and_nowhere_else():
    for scene, picture in SCENES:
        pixels = np.asarray(picture, dtype=int)  # (H, W, 3)
        for thing in scene.objects:
            left, top, right, bottom = map(int, thing.box)
            near = np.abs(pixels - COLORS[thing.color]).max(-1) <= 25  # (H, W): the shade is up to 20 off
            inside = near[top:bottom, left:right]
            assert inside.mean() > 0.3 and near.sum() == inside.sum()
            assert inside.any(0).all() or thing.shape == "triangle"  # it fills its box from side to side
            assert inside[-1].any() and inside[2].any()


def test_the_folder_is_read_as_any_data_and_its_boxes_come_back(tmp_path):
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
