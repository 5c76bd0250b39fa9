"""MS Research: word detectors by noisy-OR, a language model of the detected words, and the ranking by them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from builders import D, fitted, random_data, small_config, small_encoder
from decoders import B, C, L, P, small_annotations, small_baseline, small_captions
from numpy.typing import NDArray
from table1.msr import PRIMES, SCALE, Msr, MsrConfig

from show_attend_tell.backends.torch import TorchBackend, build_decoder, decoder_weights
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.generation import search_candidates
from show_attend_tell.model.interface import teacher_forcing
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.training.loop import Trainer

Array = NDArray[np.float64]
K, DETECTED, SIZE, NOTHING = 23, 14, 101, 23


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def small_msr(**options: Any) -> Any:
    """Detectors of which some find their word and some do not."""
    decoder = small_baseline("msr", **options)
    with torch.no_grad():
        decoder.detectors.bias.fill_(-4.0)
    return decoder


def probabilities(w: dict[str, Array], annotations: Array) -> Array:
    """p_w of the detected words, one location after the other."""
    absent = np.ones(DETECTED)
    for location in annotations:
        normal = (location - location.mean()) / np.sqrt(location.var() + 1e-5)
        absent = absent * (1 - sigmoid(w["detectors.weight"] @ normal + w["detectors.bias"]))
    return np.asarray(1 - absent)


def test_the_logits_are_the_equations(float64: None) -> None:
    decoder, annotations, captions = small_msr(), small_annotations(), small_captions()
    output = teacher_forcing(decoder, annotations, captions, paths=P)
    w = {name: value.numpy() for name, value in decoder.state_dict().items()}
    mentioned = 0
    for photo in range(B):
        p = probabilities(w, annotations[photo].numpy())
        left = {2 + word for word in range(DETECTED) if p[word] >= 0.3}
        assert 0 < len(left) < DETECTED
        words: list[int] = []
        for time in range(C):
            before = [NOTHING, NOTHING, NOTHING, *words][::-1][:3]
            for word in range(K):
                inside = int(word in left)
                wanted = SCALE * w["word"][inside, word]
                key = word * PRIMES[0]
                for order in range(3):
                    key += (before[order] + 1) * PRIMES[order + 1]
                    wanted = wanted + SCALE * w["ngrams"][order, inside, key % SIZE]
                if inside:
                    wanted = wanted + w["score"] * np.log(p[word - 2])
                if word == Vocabulary.END:
                    wanted = wanted + w["end"][len(left)]
                found = output.logits[photo, :, time, word].detach().numpy()
                np.testing.assert_allclose(found, wanted, atol=1e-9)
            words.append(int(captions[photo, time]))
            mentioned += words[-1] in left
            left -= {words[-1]}
    assert mentioned > 0


def test_the_detectors_learn_the_words_of_the_captions(float64: None) -> None:
    decoder, annotations, captions = small_msr(detection=0.5), small_annotations(), small_captions()
    output = teacher_forcing(decoder, annotations, captions, paths=P)
    assert output.penalty is not None and output.penalty.shape == (B, P)
    w = {name: value.numpy() for name, value in decoder.state_dict().items()}
    for photo in range(B):
        p = probabilities(w, annotations[photo].numpy())
        there = np.isin(np.arange(2, 2 + DETECTED), captions[photo].numpy())
        wanted = -np.where(there, np.log(p), np.log(1 - p)).sum() / 2
        np.testing.assert_allclose(output.penalty[photo].detach().numpy(), wanted, rtol=1e-6)


def test_each_path_may_have_its_own_caption(float64: None) -> None:
    """As where a training maximizes CIDEr."""
    decoder, annotations, captions = small_msr(detection=0.5), small_annotations(), small_captions()
    others = torch.stack([captions, captions.flip(0)], dim=1)  # (B, 2, C)
    both = teacher_forcing(decoder, annotations, others, paths=2).penalty
    assert both is not None
    for path in range(2):
        alone = teacher_forcing(decoder, annotations, others[:, path]).penalty
        torch.testing.assert_close(both[:, path : path + 1], alone)


def test_captions_are_ranked_by_the_share_of_detected_words() -> None:
    decoder, annotations = small_msr(), small_annotations()
    backend, config = TorchBackend(decoder), GenerationConfig(beam_size=P, max_length=C)
    found = search_candidates(backend, annotations, config, seeds=[0] * B, reranker=backend.own_reranker())
    detected = decoder.start(annotations).memory.left[:, 0]
    shares = set()
    for photo, hypotheses in enumerate(found):
        words = {*detected[photo].nonzero()[:, 0].tolist()}
        for hypothesis in hypotheses:
            share = sum(word in hypothesis.words for word in words) / len(words)
            assert hypothesis.rerank_score == pytest.approx(share)
            shares.add(share)
    assert len(shares) > 1


def test_it_reads_the_locations_and_learns() -> None:
    data = random_data()
    config = fitted(small_config(epochs=3, learning_rate=0.05), data)
    sizes = {"vocabulary_size": config.decoder.vocabulary_size, "annotation_size": config.decoder.annotation_size}
    config = replace(config, decoder=MsrConfig(**sizes, table_size=500))
    seen: list[dict[str, float]] = []
    trainer = Trainer(config, data, device=torch.device("cpu"))
    trainer.run(on_epoch=lambda epoch, better: seen.append(epoch.watch), show=False)
    assert seen[-1]["nats_per_word"] < seen[0]["nats_per_word"] - 0.1
    assert seen[-1]["penalty"] < seen[0]["penalty"]


def test_a_checkpoint_comes_back_and_captions_with_its_own_ranking(tmp_path: Path) -> None:
    encoder = small_encoder()
    decoder = Msr(MsrConfig(vocabulary_size=K, annotation_size=D, detected=DETECTED, table_size=SIZE))
    Checkpoint(
        config=decoder.config,
        weights=decoder_weights(decoder),
        vocabulary=Vocabulary([f"word{number}" for number in range(21)]),
        encoder=EncoderRecord.of(encoder),
        generation=GenerationConfig(beam_size=3, max_length=5, rerank_weight=2.0),
    ).save(tmp_path)
    found = Checkpoint.load(tmp_path)
    assert found.config == decoder.config and found.generation.rerank_weight == 2.0
    assert "detected 14" in (tmp_path / "README.md").read_text(encoding="utf-8")
    captioner = Captioner(found, TorchBackend(build_decoder(found), encoder))
    hypotheses = captioner.generate(torch.rand(2, L, D), found.generation, seeds=[0, 1])
    assert all(each.rerank_score is not None for photo in hypotheses for each in photo)
