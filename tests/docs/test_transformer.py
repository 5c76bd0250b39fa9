"""The Transformer of `examples/` learns scenes in less than a minute: it reads the photo, and its maps say where."""

from dataclasses import replace

import numpy as np
import pytest
from documents import plugin
from PIL import Image
from scenes import SOFT, read_scenes, train_on_scenes, write_scenes

from show_attend_tell import Captioner
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.model.registry import import_plugin, read_config


@pytest.mark.acceptance
def test_it_learns_to_tell_scenes_and_to_look_at_what_it_names(tmp_path):
    import_plugin(str(plugin(tmp_path / "of_scenes.py", "class TransformerDecoder(", transformer="of-scenes")))
    folder, output = tmp_path / "scenes", tmp_path / "model"
    write_scenes(folder, 300, show=False)
    decoder = read_config({"kind": "of-scenes", "size": 64, "dropout": 0.0})
    config = replace(SOFT, decoder=decoder, epochs=9, learning_rate=2e-3, warmup=50, visual_ngrams=False)
    train_on_scenes(folder, config, output)
    captioner = Captioner.from_pretrained(output, device="cpu")
    examples = read_dataset(folder).split("val")
    captions = captioner([example.photo for example in examples], evidence=True)

    own = [captioner.score(example.photo, " ".join(example.captions[0])) for example in examples]
    other = [
        captioner.score(example.photo, " ".join(examples[number - 1].captions[0]))
        for number, example in enumerate(examples)
    ]
    assert np.mean(np.array(own) > np.array(other)) > 0.9  # it reads the photo

    scenes, shares = read_scenes(folder), []
    for example, caption in zip(examples, captions, strict=True):
        assert caption.evidence is not None
        assert caption.attention.shape == (len(caption.words), 8, 8)
        for thing in scenes[example.name].objects:
            left, top, right, bottom = (edge / 8 for edge in thing.box)
            inside = np.zeros((8, 8), bool)
            inside[int(top) : int(np.ceil(bottom)), int(left) : int(np.ceil(right))] = True
            shares += [
                (float(alpha[inside].sum()), inside.mean())
                for word, alpha in zip(caption.words, caption.attention, strict=True)
                if word in (thing.color, thing.shape)
            ]
    looked, area = np.mean(shares, axis=0)
    assert looked > 1.5 * area  # of the objects that it names, on average
    captions[0].save(tmp_path / "maps.png")
    with Image.open(tmp_path / "maps.png") as picture:
        assert picture.width > 500
