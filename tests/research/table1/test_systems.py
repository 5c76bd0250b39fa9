"""The systems of Table 1 are their papers' equations; templates, the grammar of training captions and its fillings."""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch
from decoders import BASELINE_SIZES, P, small_annotations, small_baseline, small_captions
from numpy.typing import NDArray
from reference import sigmoid
from table1 import templates
from table1.detectors import FIRST
from table1.templates import Grammar, caption
from torch import Tensor

from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.interface import Decoder
from show_attend_tell.model.registry import config_class
from show_attend_tell.training.objectives.soft import SoftObjective
from show_attend_tell.training.presets import preset

Array = NDArray[np.float64]
AVERAGING = ("nic", "lrcn", "log_bilinear", "m_rnn", "brnn", "cmu_msr")  # which read ā alone
every_kind = pytest.mark.parametrize("kind", [*AVERAGING, "msr"])
averaging = pytest.mark.parametrize("kind", AVERAGING)


# The equations, once more, in NumPy and for one caption: v the mean annotation, x the embeddings of the words before


def nic(w: dict[str, Array], v: Array, x: Array) -> Array:
    m = c = np.zeros(13)
    logits = []
    for word in [w["photo_as_word.weight"] @ v + w["photo_as_word.bias"], *x]:
        i, f, o, g = np.split(
            w["gates_from_input.weight"] @ word + w["gates_from_input.bias"] + w["gates_from_hidden.weight"] @ m, 4
        )
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        m = sigmoid(o) * c
        logits.append(w["output.weight"] @ m + w["output.bias"])
    return np.array(logits[1:])  # nothing is said of the photo itself


def lrcn(w: dict[str, Array], v: Array, x: Array) -> Array:
    h = c = np.zeros(13)
    both = np.hstack([w["gates_from_word.weight"], w["gates_from_photo.weight"]])
    logits = []
    for word in x:
        gates = both @ np.concatenate([word, v]) + w["gates_from_word.bias"] + w["gates_from_hidden.weight"] @ h
        i, f, o, g = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        logits.append(w["output.weight"] @ h + w["output.bias"])
    return np.array(logits)


def log_bilinear(w: dict[str, Array], v: Array, x: Array) -> Array:
    start = w["embedding.weight"][-1]
    oldest, middle, newest = np.split(w["context.weight"], 3, axis=1)
    logits = []
    for time in range(len(x)):
        before = [x[time - i] if time >= i else start for i in range(3)]  # the newest first
        predicted = newest @ before[0] + middle @ before[1] + oldest @ before[2] + w["photo_bias.weight"] @ v
        logits.append(w["embedding.weight"][:-1] @ predicted + w["output_bias"])
    return np.array(logits)


def m_rnn(w: dict[str, Array], v: Array, x: Array) -> Array:
    r = np.zeros(13)
    logits = []
    for word in x:
        word = w["second_embedding.weight"] @ word
        r = np.maximum(w["recurrence.weight"] @ r + word, 0)
        m = w["multimodal_from_word.weight"] @ word + w["multimodal_from_word.bias"]
        m = m + w["multimodal_from_recurrence.weight"] @ r + w["multimodal_from_photo.weight"] @ v
        logits.append(w["output.weight"] @ (1.7159 * np.tanh(2 / 3 * m)) + w["output.bias"])
    return np.array(logits)


def brnn(w: dict[str, Array], v: Array, x: Array) -> Array:
    h = np.zeros(13)
    logits = []
    for time, word in enumerate(x):
        total = w["hidden_from_word.weight"] @ word + w["hidden_from_word.bias"] + w["hidden_from_hidden.weight"] @ h
        h = np.maximum(total + (w["hidden_from_photo.weight"] @ v if time == 0 else 0), 0)
        logits.append(w["output.weight"] @ h + w["output.bias"])
    return np.array(logits)


def cmu_msr(w: dict[str, Array], v: Array, x: Array) -> Array:
    return np.array([logits for logits, _ in cmu_msr_steps(w, v, x)])


def cmu_msr_steps(w: dict[str, Array], v: Array, x: Array) -> Iterator[tuple[Array, Array]]:
    """Logits and reconstructed photo of each step."""
    s, u = np.zeros(13), np.zeros(10)
    for word in x:
        from_word = w["language_from_word.weight"] @ word + w["language_from_word.bias"]
        s = sigmoid(from_word + w["language_from_language.weight"] @ s + w["language_from_photo.weight"] @ v)
        u = sigmoid(
            w["visual_from_word.weight"] @ word + w["visual_from_word.bias"] + w["visual_from_visual.weight"] @ u
        )
        logits = w["output.weight"] @ np.hstack([s, u]) + w["output.bias"] + w["output_from_photo.weight"] @ v
        yield logits, w["photo_from_visual.weight"] @ u + w["photo_from_visual.bias"]


EQUATIONS = {"nic": nic, "lrcn": lrcn, "log_bilinear": log_bilinear, "m_rnn": m_rnn, "brnn": brnn, "cmu_msr": cmu_msr}


def inputs(decoder: Decoder, annotations: Tensor, captions: Tensor) -> list[tuple[dict[str, Array], Array, Array]]:
    """A decoder's weights with the v and the x of each photo."""
    weights = {name: value.numpy() for name, value in decoder.state_dict().items()}
    found = []
    for photo, words in zip(annotations.numpy(), captions.tolist(), strict=True):
        mean = photo.mean(0)
        v = (mean - mean.mean()) / np.sqrt(mean.var() + 1e-5)
        found.append((weights, v, weights["embedding.weight"][[BASELINE_SIZES["vocabulary_size"], *words[:-1]]]))
    return found


@averaging
def test_logits_are_the_papers(kind, float64):
    decoder, annotations, captions = small_baseline(kind), small_annotations(), small_captions()
    output = decoder.teacher_forcing(annotations, captions, paths=P)
    assert output.alpha is None and output.beta is None and output.locations is None
    for logits, given in zip(output.logits.detach().numpy(), inputs(decoder, annotations, captions), strict=True):
        wanted = EQUATIONS[kind](*given)
        for path in range(P):
            np.testing.assert_allclose(logits[path], wanted, atol=1e-10)


def test_cmu_msr_learns_to_reconstruct_the_photo_from_the_words(float64):
    decoder, annotations, captions = (
        small_baseline("cmu_msr", reconstruction=0.25),
        small_annotations(),
        small_captions(),
    )
    output = decoder.teacher_forcing(annotations, captions, paths=P)
    assert output.penalty is not None
    for penalty, (w, v, x) in zip(output.penalty, inputs(decoder, annotations, captions), strict=True):
        wanted = sum(float(((seen - v) ** 2).mean()) for _, seen in cmu_msr_steps(w, v, x))
        np.testing.assert_allclose(penalty.detach().numpy(), 0.25 * wanted, atol=1e-9)
    words = SoftObjective(doubly_stochastic=0.0)
    without = words(output._replace(penalty=None), captions).total
    torch.testing.assert_close(words(output, captions).total, without + output.penalty.mean())


@every_kind
def test_its_preset_is_the_soft_one_with_its_own_decoder(kind):
    config = preset("flickr8k", decoder=kind)
    assert config == replace(preset("flickr8k"), decoder=config_class(kind)(), visual_ngrams=False)


CAPTIONS = ["a dog in a red car", "a cat in a blue car", "a dog in a red ball", "the man is running", "a man"]
VOCABULARY = Vocabulary(list(dict.fromkeys(" ".join(CAPTIONS).split())))
ENCODED = [VOCABULARY.encode(text.split()) for text in CAPTIONS]


def shares_of(**likely: float) -> torch.Tensor:
    """p_w of all words, small but for the likely ones."""
    words = VOCABULARY.words[FIRST:]
    return torch.tensor([likely.get(word, 0.01 + number / 1e4) for number, word in enumerate(words)])


def test_nouns_verbs_and_colors_of_captions_are_slots():
    grammar = Grammar(ENCODED, VOCABULARY)
    told = [[part if isinstance(part, str) else VOCABULARY.words[part] for part in each] for each in grammar.templates]
    end = VOCABULARY.words[Vocabulary.END]
    assert told[0] == ["a", "noun", "in", "a", "color", "noun", end]  # that of three captions
    assert ["the", "noun", "is", "verb", end] in told and ["a", "noun", end] in told and len(told) == 3


def test_the_best_filling_is_found():
    grammar = Grammar(ENCODED, VOCABULARY)
    shares = shares_of(cat=0.9, ball=0.8, blue=0.7)
    lifts = (shares / 0.2).log()
    candidates = grammar.candidates(shares, lifts)
    assert [VOCABULARY.words[word] for word, _ in candidates["noun"]][:2] == ["cat", "ball"]
    for weight in (0.5, 2.0):
        best = grammar.fill(candidates, weight)[0]
        choices = [[(part, 0.0)] if isinstance(part, int) else candidates[part] for part in grammar.templates[0]]

        def score(chosen: tuple[tuple[int, float], ...], weight: float = weight) -> float:
            words = [word for word, _ in chosen]
            log_p = sum(grammar.log_share(word, words[:at]) for at, word in enumerate(words))
            return weight * sum(lift for _, lift in chosen) + log_p

        allowed = [each for each in itertools.product(*choices) if each[1][0] != each[5][0]]
        assert best.words == tuple(word for word, _ in max(allowed, key=score))
        assert weight * best.lift + best.log_p == pytest.approx(max(map(score, allowed)))


def test_the_caption_is_the_best_by_weight_and_length_penalty():
    short = templates.Filled((4, 0), lift=1.0, log_p=-2.0)
    long = templates.Filled((4, 5, 6, 0), lift=3.0, log_p=-5.0)
    assert caption([short, long], 0.5, 0.0) == (4,)  # −1.5 and −3.5
    assert caption([short, long], 2.0, 0.0) == (4, 5, 6)  # 0 and 1
    assert caption([short, long], 0.5, 2.0) == (4, 5, 6)  # −1.5 / 4 and −3.5 / 16
