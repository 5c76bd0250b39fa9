"""Ranking: log p of many captions at once, ranks and τ_c by hand, and the experts' file."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from builders import captioner_of, shape_folder, small_checkpoint, small_encoder
from decoders import small_annotations, small_baseline, small_decoder
from research import ranking
from research.ranking import (
    Judgement,
    kendall_tau_c,
    less_mean,
    log_probabilities,
    rank,
    read_experts,
    retrieval,
)

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.datasets import Dataset, read_dataset
from show_attend_tell.errors import SatError
from show_attend_tell.model.interface import teacher_forcing, word_log_probabilities

# one is the beginning of another, two are equal, one is empty
CAPTIONS = [[5, 3, 7, 0], [5, 3, 0], [5, 3, 9, 4, 2, 0], [8, 3, 7, 0], [0], [5, 3, 7, 0], [5, 4, 0]]


@pytest.mark.parametrize("kind", ["attention", "lrcn", "msr"])
@pytest.mark.parametrize("at_once", [2, 100])
def test_many_captions_at_once_have_the_log_p_of_each(kind: str, at_once: int) -> None:
    decoder, annotations = small_decoder() if kind == "attention" else small_baseline(kind), small_annotations(3)
    found = log_probabilities(decoder, annotations, CAPTIONS, at_once)
    assert found.shape == (3, len(CAPTIONS))
    for number, caption in enumerate(CAPTIONS):
        ids = torch.tensor([caption] * 3)
        with torch.no_grad():
            alone = word_log_probabilities(teacher_forcing(decoder, annotations, ids).logits, ids).sum((1, 2))
        torch.testing.assert_close(found[:, number], alone)


def test_a_shared_beginning_is_computed_once() -> None:
    (levels,) = ranking.grow(CAPTIONS)
    computed = sum(1 if number == 0 else len(levels[number - 1].running) for number in range(len(levels)))
    assert computed == len({tuple(caption[:time]) for caption in CAPTIONS for time in range(len(caption))}) == 11


# ---------------------------------------------------------------- retrieval

SCORES = np.array([[9.0, 8, 1, 5, 5], [7, 1, 2, 6, 9], [3, 4, 5, 8, 5]])  # (photos, captions)
OWNERS = np.array([0, 0, 1, 1, 2])


def test_ranks_by_hand() -> None:
    found = retrieval(SCORES, OWNERS)
    # photo 0: its 9 and 8 lead; photo 1: 7 and 9 precede its 6; photo 2: 8 precedes its 5, and so does the tie
    assert found["image_to_caption"] == {
        "recall_1": pytest.approx(100 / 3),
        "recall_5": 100,
        "recall_10": 100,
        "median_rank": 3,
        "queries": 3,
    }
    # the captions' own photos have ranks 1, 1, 2, 2 and 3, being tied
    assert found["caption_to_image"] == {
        "recall_1": 40,
        "recall_5": 100,
        "recall_10": 100,
        "median_rank": 2,
        "queries": 5,
    }


def test_a_photo_s_other_captions_are_no_rivals() -> None:
    own_first = np.array([[9.0, 8, 7, 0], [0, 0, 0, 1]])
    assert retrieval(own_first, np.array([0, 0, 0, 1]))["image_to_caption"]["recall_1"] == 100


def test_recall_counts_ranks_up_to_its_number() -> None:
    scores = np.zeros((1, 20)) - np.arange(20)
    for position, recall in ((0, [100, 100, 100]), (4, [0, 100, 100]), (5, [0, 0, 100]), (10, [0, 0, 0])):
        owners = np.full(20, 1)
        owners[position] = 0
        found = retrieval(np.vstack([scores, 1 - scores]), owners)["image_to_caption"]
        expected = [(value + 100) / 2 for value in recall]  # the other photo's best is first
        assert [found[f"recall_{k}"] for k in (1, 5, 10)] == expected, position


def test_the_mean_is_over_the_other_photos() -> None:
    found = less_mean(SCORES)
    for photo, caption in np.ndindex(SCORES.shape):
        others = [SCORES[other, caption] for other in range(3) if other != photo]
        assert found[photo, caption] == pytest.approx(SCORES[photo, caption] - np.mean(others))


# ---------------------------------------------------------------- Kendall


def test_tau_c_is_stuarts() -> None:
    """scipy.stats.kendalltau(variant="c"), SciPy 1.17.1, gives this."""
    generator = np.random.default_rng(7)
    ratings = generator.integers(1, 5, 101)
    scores = (ratings + generator.normal(size=101) * 2).round(1)  # with ties
    balance = sum(
        np.sign(scores[i] - scores[j]) * np.sign(ratings[i] - ratings[j])
        for i, j in itertools.combinations(range(101), 2)
    )
    assert kendall_tau_c(scores, ratings) == pytest.approx(2 * balance / (101**2 * 3 / 4))
    assert kendall_tau_c(scores, ratings) == pytest.approx(0.514459366728752)
    assert kendall_tau_c(np.array([1.0, 2, 3, 4]), np.array([1, 1, 2, 2])) == 1
    assert kendall_tau_c(np.array([4.0, 3, 2, 1]), np.array([1, 2, 3, 4])) == -1
    with pytest.raises(SatError, match="vary"):
        kendall_tau_c(np.array([1.0, 2]), np.array([3, 3]))


# ---------------------------------------------------------------- a model, and the experts


pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Four test photos with two captions each, the second of which is the first turned round."""
    folder = shape_folder(tmp_path_factory.mktemp("data") / "shapes", captions=2)
    header, *rows = (folder / "captions.csv").read_text(encoding="utf-8").splitlines()
    for number in range(1, len(rows), 2):
        photo, caption, split = rows[number].split(",")
        rows[number] = f"{photo},{' '.join(reversed(caption.split()))},{split}"
    (folder / "captions.csv").write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return read_dataset(folder)


@pytest.fixture
def captioner() -> Captioner:
    encoder = small_encoder()
    checkpoint = small_checkpoint(encoder, vocabulary_size=11)
    checkpoint.vocabulary = type(checkpoint.vocabulary)("a circle is on red right left square there".split())
    return captioner_of(checkpoint, encoder, name="small")


def experts(folder: Path, dataset: Dataset, *lines: str) -> Path:
    """A file of ratings in which names 0 to 3 stand for the test photos."""
    names = [example.name for example in dataset.split("test")]
    text = "".join(f"{line}\n" for line in lines)
    for number, name in enumerate(names):
        text = text.replace(f"<{number}>", name)
    (folder / "experts.txt").write_text(text, encoding="utf-8-sig")  # with the mark of some editors
    return folder / "experts.txt"


RATED = ("<0>\t<1>#0\t1\t1\t2", "<0>\t<0>#1\t4\t4\t4", "<1>\t<3>#1\t2\t2\t3", "<2>\t<0>#0\t1\t3\t4")


def test_experts_are_read(dataset: Dataset, tmp_path: Path) -> None:
    names = [example.name for example in dataset.split("test")]
    found = read_experts(experts(tmp_path, dataset, *RATED, ""), dataset.split("test"))
    assert found[0] == Judgement(names[0], names[1], 0, (1, 1, 2)) and found[2].number == 1 and len(found) == 4


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<0>\t<1>#0\t1\t1", "line 2: .*is not a photo, a caption PHOTO#NUMBER and three ratings"),
        ("<0>\t<1>\t1\t1\t1", "line 2: .*three ratings"),
        ("<0>\t<1>#0\t1\t1\t5", "line 2: .*ratings from 1 to 4"),
        ("<0>\tzebra.png#0\t1\t1\t1", "line 2: .* the caption 'zebra.png#0' is not among those of the 4 photos"),
        ("zebra.png\t<1>#0\t1\t1\t1", "line 2: the photo 'zebra.png'"),
        ("<0>\t<1>#2\t1\t1\t1", "line 2: .*#2' is not among"),
    ],
)
def test_experts_that_make_no_sense_are_refused(dataset: Dataset, tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SatError, match=message):
        read_experts(experts(tmp_path, dataset, RATED[0], line), dataset.split("test"))


def test_no_experts_are_refused(dataset: Dataset, captioner: Captioner, tmp_path: Path) -> None:
    with pytest.raises(SatError, match="no ratings in it"):
        read_experts(experts(tmp_path, dataset), dataset.split("test"))
    with pytest.raises(SatError, match="cannot read"):
        read_experts(tmp_path / "absent.txt", dataset.split("test"))
    pytest.importorskip("pycocoevalcap")
    with pytest.raises(SatError, match="with its own captions only"):
        rank(captioner, dataset, "test", cache=tmp_path, experts=experts(tmp_path, dataset, RATED[1]))
    with pytest.raises(SatError, match="all ratings are the same"):
        rank(captioner, dataset, "test", cache=tmp_path, experts=experts(tmp_path, dataset, "<0>\t<1>#0\t2\t2\t2"))


def test_a_score_that_never_varies_agrees_with_nobody_and_costs_nothing_else(
    dataset: Dataset, captioner: Captioner, tmp_path: Path
) -> None:
    pytest.importorskip("pycocoevalcap")
    file = experts(tmp_path, dataset, "<0>\t<1>#0\t1\t2\t3")
    found = rank(captioner, dataset, "test", cache=tmp_path, captions=1, experts=file, show=False)
    assert set(found["experts"]["tau_c"].values()) == {None} and found["retrieval"]["log_p"]
    assert [line.split()[-1] for line in ranking.lines(found)][-1] == "–"


def test_a_model_ranks_and_is_compared_with_the_experts(dataset: Dataset, captioner: Captioner, tmp_path: Path) -> None:
    pytest.importorskip("pycocoevalcap")
    examples = dataset.split("test")
    file = experts(tmp_path, dataset, *RATED)
    found = rank(captioner, dataset, "test", cache=tmp_path, captions=1, experts=file, show=False)
    json.dumps(found, allow_nan=False)
    assert (found["photos"], found["captions"]) == (4, 4)

    log_p = np.array(
        [
            [captioner.score(photo.photo, " ".join(example.captions[number])) for example in examples]
            for photo in examples
            for number in (0, 1)
        ]
    ).reshape(4, 2, 4)  # photo, number, whose caption
    lengths = np.array([len(example.captions[0]) + 1 for example in examples])
    for name, scores in (
        ("log_p", log_p[:, 0]),
        ("per_word", log_p[:, 0] / lengths),
        ("less_mean", less_mean(log_p[:, 0])),
    ):
        assert found["retrieval"][name] == retrieval(scores, np.arange(4)), name

    judged = found["experts"]
    assert judged["own_captions_dropped"] == 1 and judged["ratings"] == 9 and len(judged["pairs"]) == 3
    cells = [(0, 0, 1), (1, 1, 3), (2, 0, 0)]
    for pair, (photo, number, whose) in zip(judged["pairs"], cells, strict=True):
        assert pair["photo"] == examples[photo].name and pair["caption"] == f"{examples[whose].name}#{number}"
        assert pair["log_p"] == pytest.approx(log_p[photo, number, whose], abs=2e-2)  # the cache is of half precision
        assert pair["per_word"] == pytest.approx(pair["log_p"] / (len(examples[whose].captions[number]) + 1))
        assert pair["less_mean"] == pytest.approx(less_mean(log_p[:, number])[photo, whose], abs=4e-2)
    # <2> <0>#0 was rated 1, 3, 4; <1> <3>#1 2, 2, 3; <0> <1>#0 1, 1, 2: each pair's score counts three times
    values = [pair["log_p"] for pair in judged["pairs"] for _ in range(3)]
    ratings = np.array([1, 1, 2, 2, 2, 3, 1, 3, 4])
    assert judged["tau_c"]["log_p"] == pytest.approx(100 * kendall_tau_c(np.array(values), ratings))
    assert {"bleu_4_smoothed", "cider", "rouge_l"} <= judged["metrics"].keys()

    # among the first two photos only: the pairs keep their log p, and the means are over those two
    few = rank(captioner, dataset, "test", cache=tmp_path, captions=1, photos=2, experts=file, show=False)
    assert (few["photos"], few["captions"]) == (2, 2)
    for name, scores in (("log_p", log_p[:2, 0, :2]), ("less_mean", less_mean(log_p[:2, 0, :2]))):
        assert few["retrieval"][name] == retrieval(scores, np.arange(2)), name
    for pair, before, (photo, number, whose) in zip(few["experts"]["pairs"], judged["pairs"], cells, strict=True):
        assert pair["log_p"] == pytest.approx(before["log_p"], abs=1e-4)
        others = [log_p[other, number, whose] for other in (0, 1) if other != photo]
        assert pair["less_mean"] == pytest.approx(pair["log_p"] - np.mean(others), abs=4e-2)
    with pytest.raises(SatError, match="1 of the photos of the split 'test' to rank among: give 2 or more"):
        rank(captioner, dataset, "test", cache=tmp_path, photos=1)


def test_metrics_are_against_the_photos_own_captions(dataset: Dataset) -> None:
    pytest.importorskip("pycocoevalcap")
    examples = dataset.split("test")
    judgements = [Judgement(examples[0].name, examples[1].name, 0, (1, 1, 1))]
    judgements += [Judgement(examples[0].name, examples[0].name, 1, (1, 1, 1))]  # its own: a full score
    found = ranking.reference_metrics(judgements, examples)
    assert found["bleu_4_smoothed"][1] == pytest.approx(100) and found["bleu_4_smoothed"][0] < 90


def test_the_command_prints_and_writes(dataset: Dataset, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pycocoevalcap")
    small_checkpoint(small_encoder()).save(tmp_path / "model")
    rated = experts(tmp_path, dataset, *RATED)
    command = [dataset.folder, tmp_path / "model", "--device", "cpu", "--json", tmp_path / "found.json", "--experts"]
    ranking.main([str(part) for part in (*command, rated)])
    printed, written = capsys.readouterr().out.splitlines(), json.loads((tmp_path / "found.json").read_text("utf-8"))
    assert printed[0].startswith("model on shapes test: 4 photos, 8 captions, ")
    median = written["retrieval"]["less_mean"]["image_to_caption"]["median_rank"]
    assert "a photo's captions" in printed[3] and printed[3].endswith(f"median rank {median:g}")
    assert printed[7] == "  Kendall's tau_c ×100 with 9 ratings of 3 pairs (1 of a photo with its own caption dropped)"
    assert printed[8].split() == ["log_p", f"{written['experts']['tau_c']['log_p']:.1f}"]
    with pytest.raises(SystemExit, match=r"cannot read .*absent\.txt"):
        ranking.main([str(part) for part in (*command, tmp_path / "absent.txt")])
