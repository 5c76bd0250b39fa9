"""The training loop: it learns; it stops and goes on to the bit; it keeps the best epoch; it refuses nonsense."""

import json
import math
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache

import pytest
import torch
from builders import (
    D,
    InMemoryAnnotations,
    Tuned,
    random_data,
    shape_caption,
    shape_photo,
    shape_scenes,
    small_config,
    small_encoder,
)
from safetensors import safe_open
from safetensors.torch import load_file, save
from searching import beam_search
from trainers import interrupting, learn, logged, rounding_of, scoring, take, trainer_of

from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.tokenizers import tokenize
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.model.attention import ArgmaxAttention, MeanAttention, attention_mode_by_name
from show_attend_tell.training.data import TrainingData, annotation_scale, batches, batches_of_photos
from show_attend_tell.training.likelihood import joined
from show_attend_tell.training.objectives.hard import HardObjective
from show_attend_tell.training.objectives.losses import Loss
from show_attend_tell.training.objectives.soft import SoftObjective
from show_attend_tell.training.presets import preset
from show_attend_tell.training.selection import captions_of, scores_of, usual_decoding, usual_generation

CPU = torch.device("cpu")


def weights_of(trainer):
    """Everything that a training has learnt, and what it learns with."""
    found = {f"decoder.{name}": value for name, value in trainer.decoder.state_dict().items()}
    found |= {f"average.{name}": value for name, value in trainer.average.state_dict().items()}
    for index, entry in trainer.optimizer.state_dict()["state"].items():
        found |= {f"optimizer.{index}.{name}": value for name, value in entry.items()}
    return found | {f"objective.{name}": value for name, value in trainer.objective.state_dict().items()}


def differing(ours, theirs):
    assert ours.keys() == theirs.keys()
    return [name for name in ours if not torch.equal(ours[name], theirs[name])]


def steps(trainer, epochs):
    """All steps of some epochs, without the rest of a training; what is watched in each."""
    found = []
    for trainer.epoch in range(epochs):
        found += [take(trainer, indices) for indices in trainer.batches()]
    return found


def test_a_model_overfits_ten_photos_to_bleu_100():
    encoder = small_encoder()
    scenes = shape_scenes(10)
    names = [f"photo{number}" for number in range(10)]
    pixels = torch.stack([encoder.preprocessing(shape_photo(*scene)) for scene in scenes])
    references = [tokenize(shape_caption(*scene)) for scene in scenes]
    vocabulary = Vocabulary.build(references)
    data = TrainingData(
        vocabulary=vocabulary,
        captions=[(name, vocabulary.encode(words)) for name, words in zip(names, references, strict=True)],
        validation=[(name, [words]) for name, words in zip(names, references, strict=True)],
        views=[InMemoryAnnotations(dict(zip(names, encoder.annotate(pixels), strict=True)))],
    )
    trainer = trainer_of(data, batch_size=10, learning_rate=0.02, clip=1.0)
    watched = steps(trainer, epochs=80)
    assert trainer.validate()["bleu_4"] == pytest.approx(100)
    assert watched[-1]["nats_per_word"] < 0.1 * watched[0]["nats_per_word"]
    assert {"loss", "entropy", "beta"} <= watched[0].keys()


MARKED = 10  # the channel that marks the location to attend to
WORDS = 7


def marked_locations(photos, locations, seed):
    """Photos whose every location shows one of seven words, and a mark where this word is the caption."""
    generator = torch.Generator().manual_seed(seed)
    names = [f"photo{number}" for number in range(photos)]
    annotations = torch.zeros(photos, locations, D)
    shown = torch.stack([torch.randperm(WORDS, generator=generator)[:locations] for _ in names])
    annotations.scatter_(-1, shown[..., None], 1.0)
    marked = torch.randint(locations, (photos,), generator=generator)
    annotations[torch.arange(photos), marked, MARKED] = 1.0
    said = shown[torch.arange(photos), marked] + 2
    vocabulary = Vocabulary([f"word{number}" for number in range(WORDS)])
    return TrainingData(
        vocabulary=vocabulary,
        captions=[(name, [int(word), Vocabulary.END]) for name, word in zip(names, said, strict=True)],
        validation=[(names[0], [["word0"]])],
        views=[InMemoryAnnotations(dict(zip(names, annotations, strict=True)))],
    ), marked


@pytest.mark.acceptance
@pytest.mark.parametrize(
    "how",
    [
        {"hard": HardObjective(coin="image", reward="sentence", baseline="moving", entropy_weight=0.02)},  # the paper's
        {"hard": HardObjective(samples=2, coin="both", reward="to_go", baseline="expected")},
    ],
    ids=["the paper's rule", "leave one out"],
)
def test_hard_attention_learns_to_look_where_the_word_is(how):
    locations = 5
    data, _ = marked_locations(280, locations, seed=1)
    config = small_config(**{"epochs": 40, "batch_size": 20, "decoder": {"attention": "hard"}, "patience": 40, **how})
    trainer = trainer_of(data, config)
    steps(trainer, epochs=40)

    fresh, marked = marked_locations(50, locations, seed=2)
    names = [name for name, _ in fresh.captions]
    captions = torch.tensor([words for _, words in fresh.captions])
    share = {}
    for name in ("argmax", "sample"):
        mode = attention_mode_by_name(name, seeds=range(len(names)), paths=1, steps=2, device=CPU)
        with torch.no_grad():
            output = trainer.average.teacher_forcing(fresh.views[0][names], captions, mode=mode)
        share[name] = float((output.locations[:, 0, 0] == marked).float().mean())  # chance is a fifth
    assert share["argmax"] >= 0.9 and share["sample"] >= 0.8


SOFT = small_config(epochs=4, decoder={"dropout": 0.5}, averaging=0.9, schedule="cosine", warmup=3)
HARD = replace(
    SOFT,
    decoder=replace(SOFT.decoder, attention="hard"),
    hard=HardObjective(samples=2, reward="to_go", baseline="moving", entropy_weight=0.05),
    entropy_weight_end=0.0,
    optimizer="rmsprop",
    learning_rate=1e-3,
)


@cache
def uninterrupted(attention):
    return learn(SOFT if attention == "soft" else HARD, random_data(views=2))[0]


@pytest.mark.parametrize(
    ("config", "at", "method"),
    [
        (SOFT, 5, "take"),
        (HARD, 5, "take"),
        (HARD, 1, "validate"),
        (SOFT, 5, "update_average"),  # when the weights have moved, and the average has not
    ],
    ids=["soft", "hard", "hard, at validation", "in a step"],
)
def test_an_interrupted_training_ends_as_an_uninterrupted_one(config, at, method, tmp_path):
    whole = uninterrupted(config.decoder.attention)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        learn(config, random_data(views=2), interrupting(at, method), tmp_path)
    assert signal.getsignal(signal.SIGINT) is before  # Ctrl-C is the user's again
    torch.manual_seed(99)  # another process would have other random numbers
    resumed, _ = learn(config, random_data(views=2), output=tmp_path, resume=True)
    assert differing(weights_of(resumed), weights_of(whole)) == []
    assert (resumed.best, resumed.best_epoch) == (whole.best, whole.best_epoch)
    if config is HARD:
        assert len(resumed.objective.state_dict()["baseline"]) and config.hard.baseline == "moving"


def test_a_damaged_state_is_refused(tmp_path):
    state = tmp_path / "state.safetensors"
    damaged = tmp_path / "damaged.safetensors"
    trainer = trainer_of(random_data())
    trainer.save(state)
    tensors = load_file(state)
    with safe_open(state, framework="pt") as opened:
        header = opened.metadata()
    identity = json.loads(header["identity"])
    wrong = {
        "progress": [None, [], [0, 0, 0, 0.0], 7],
        "identity": [None, [], "x", {**identity, "epochs": "x"}],
    }
    headers = [{**header, name: json.dumps(value)} for name, values in wrong.items() for value in values]
    files = [save(tensors, metadata) for metadata in [*headers, None]]
    files += [state.read_bytes()[:left] for left in (0, -1)]  # cut short
    del tensors["decoder.gates_from_word.weight"]
    for content in [*files, save(tensors, header)]:
        damaged.write_bytes(content)
        with pytest.raises(SatError, match=r"damaged\.safetensors cannot be read"):
            trainer.resume(damaged)


@pytest.mark.parametrize(
    ("changes", "scores", "better", "best"),
    [  # as good is not better
        ({"epochs": 50, "patience": 3}, [(5, 0), (8, 0), (8, 0), (7, 0), (6, 0), (99, 0)], [1, 1, 0, 0, 0], (8, 2)),
        ({"selected_by": "cider"}, [(9, 1), (5, 3), (99, 2)], [1, 1, 0], (3, 2)),
        ({"selected_by": "nats"}, [(5, 0), (3, 0), (4, 0)], [1, 1, 0], (-3, 2)),
    ],
    ids=["patience", "cider", "nats"],
)
def test_the_best_epoch_is_kept(
    changes,
    scores,
    better,
    best,
    tmp_path,
):
    kind = scoring(*({"bleu_4": first, "nats": first, "cider": cider} for first, cider in scores))
    with logged() as messages:
        trainer, _ = learn(small_config(**{"epochs": 3, **changes}), random_data(), kind, tmp_path, bits=32)
    found = [(" (best)" in line) for line in messages if line.startswith("epoch ")]
    assert (trainer.best, trainer.best_epoch) == best and len(found) == len(better)
    assert found == [bool(each) for each in better]
    again, _ = learn(small_config(epochs=best[1], patience=50), random_data())
    kept = build_decoder(Checkpoint.load(tmp_path)).state_dict()
    assert differing(dict(kept), again.average.state_dict()) == []


def test_validation_decodes_each_photo_once_with_the_weights_that_ship():
    data = random_data()
    trainer = trainer_of(data, averaging=0.99)
    data.views = [Tuned(data.views[0])]
    with torch.no_grad():
        for parameter in trainer.decoder.parameters():
            parameter.fill_(math.nan)  # were they used, nothing would be found
    scores = trainer.validate()
    assert sorted(data.views[0].read) == sorted(name for name, _ in data.validation)
    varied = {"words_used", "distinct", "repetitive"}  # ten captions cannot tell which are truncated
    assert scores.keys() == {"bleu_1", "bleu_2", "bleu_3", "bleu_4", "bleu_4_no_brevity", "cider", *varied}
    assert all(0 <= scores[name] <= 100 for name in scores if name != "cider")


def test_validation_is_by_bleu_with_penalty_and_a_hard_model_s_argmax():
    data = random_data()
    config = small_config(decoder={"attention": "hard", "gate": False}, validation_beam_size=3, max_length=2)
    decoder = trainer_of(data, config).average
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in decoder.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    annotations = data.views[0][[name for name, _ in data.validation]]
    argmax, mean = (
        beam_search(decoder, annotations, beam_size=3, max_length=2, mode=mode, allow_repetitions=False)
        for mode in (ArgmaxAttention(), MeanAttention())
    )
    (found,) = captions_of(decoder, data, usual_decoding(config, data))
    assert found == [data.vocabulary.decode(of_photo[0].words) for of_photo in argmax]
    assert found != [data.vocabulary.decode(of_photo[0].words) for of_photo in mean]
    longer = [(name, [[*words, *"abcd"]]) for (name, _), words in zip(data.validation, found, strict=True)]
    assert 0 < scores_of(found, replace(data, validation=longer))["bleu_1"] < 50  # half of each caption is missing
    assert usual_generation(preset("paper", "hard")).attention_mode == "mean"  # as in the authors' program


def test_a_caption_weighs_the_same_in_a_batch_of_any_size():
    data = random_data()

    def gradient(indices):
        trainer = trainer_of(data, batch_size=4, decoder={"output_tanh": False})
        take(trainer, indices)
        found = trainer.decoder.get_parameter("output_bias").grad
        return found

    alike = [index for index, (_, words) in enumerate(data.captions) if len(words) == 6][:3]
    alone = [gradient([index]) for index in alike]
    together = gradient(alike)
    torch.testing.assert_close(together, torch.stack(alone).sum(0), rtol=0, atol=rounding_of(together))


def test_rmsprop_is_graves_s():
    rms = trainer_of(random_data(), optimizer="rmsprop").optimizer
    assert isinstance(rms, torch.optim.RMSprop)
    graves = {"alpha": 0.95, "eps": 1e-2, "momentum": 0.9, "centered": True, "weight_decay": 0}
    assert {name: rms.param_groups[0][name] for name in graves} == graves


def test_joined_data_sets_are_scored_each_by_itself():
    data = random_data(photos=8)
    captions = [references[0] if row < 2 else ["else"] for row, (_, references) in enumerate(data.validation)]
    together = scores_of(captions, data)
    data.parts = [slice(0, 2), slice(2, 4)]
    apart = scores_of(captions, data)
    first, second = (
        scores_of(captions[part], replace(data, validation=data.validation[part], parts=())) for part in data.parts
    )
    assert apart == {name: pytest.approx((first[name] + second[name]) / 2) for name in first} != together


def test_a_photo_s_captions_come_together_while_the_encoder_learns():
    data = random_data(photos=23)
    weights = [2.0 if name == "photo1" else 1.0 for name, _ in data.captions]
    for size in (1, 7, 64):
        found = batches_of_photos(data.captions, size, seed=3, weights=weights)
        shown = Counter(index for batch in found for index in batch)
        assert shown == {i: 2 if name == "photo1" else 1 for i, (name, _) in enumerate(data.captions)}
        photos = [name for batch in found for name in {data.captions[index][0] for index in batch}]
        assert len(photos) == len(set(photos)) == len({name for name, _ in data.captions})  # each in one batch
        longest = max(Counter(data.captions[index][0] for batch in found for index in batch).values())
        assert all(len(batch) >= size for batch in found[:-1]) and all(len(batch) < size + longest for batch in found)
    assert found != batches_of_photos(data.captions, 64, seed=4, weights=weights)


def test_an_encoder_that_learns_sees_each_photo_once_a_batch_for_the_same_gradient():
    data = random_data(tuned=True)
    trainer = trainer_of(data, batch_size=8)
    data.views[0].read.clear()  # the scale of the annotations was computed from them
    indices = trainer.batches()[0]
    assert len({len(data.captions[index][1]) for index in indices}) > 1

    weights = [*data.encoder.parameters(), trainer.decoder.get_parameter("output_bias")]

    found = trainer.loss_of_photos(indices)
    assert sorted(data.views[0].read) == sorted({data.captions[index][0] for index in indices})
    alone = [trainer.loss_of_photos([index]) for index in indices]
    expected = torch.stack([loss.total for loss in alone]).mean()
    torch.testing.assert_close(found.total, expected)
    torch.testing.assert_close(found.watch["entropy"], torch.stack([loss.watch["entropy"] for loss in alone]).mean())
    for ours, theirs in zip(*(torch.autograd.grad(loss, weights) for loss in (found.total, expected)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=rounding_of(theirs))


def test_every_epoch_has_its_own_order_and_the_views_come_equally_often():
    data = random_data(photos=40, views=3)
    data.views = [Tuned(view) for view in data.views]
    trainer = trainer_of(data, epochs=2)
    data.views[0].read.clear()  # the scale of the annotations was computed from them
    order = []
    for trainer.epoch in range(2):
        order.append(trainer.batches())
        for indices in order[-1]:
            take(trainer, indices)
    assert order[0] != order[1]
    shown = [len(view.read) for view in data.views]
    assert sum(shown) == 2 * len(data.captions)  # each caption once an epoch, in one view
    assert all(0.2 < number / sum(shown) < 0.47 for number in shown)
    names = [name for name, _ in data.captions]
    shown_now = trainer.read(names, trainer.draw_views(len(names)), range(len(names)))
    for name, row in zip(names, shown_now, strict=True):
        assert any(torch.equal(row, view[[name]][0]) for view in data.views)  # a view of its own photo


def rates(config, batches_to_take):
    trainer = trainer_of(random_data(), config)
    found = []
    for _ in range(batches_to_take):
        trainer.set_schedules()
        found.append(trainer.optimizer.param_groups[0]["lr"])
        trainer.taken += 1
    return found


def test_warm_up_rises_evenly_and_cosine_falls_to_zero():
    per_epoch = trainer_of(random_data()).batches_an_epoch
    assert rates(small_config(), 3) == [0.01] * 3
    assert rates(small_config(warmup=4), 6) == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01])
    total = 3 * per_epoch
    falling = rates(small_config(schedule="cosine"), total)
    for taken in (0, 1, per_epoch, total - 1):
        assert falling[taken] == pytest.approx(0.01 * (1 + math.cos(math.pi * taken / total)) / 2)
    assert falling[-1] < 0.01 * 0.02 and falling == sorted(falling, reverse=True)


@pytest.mark.parametrize(("end", "weights"), [(0.1, (0.5, 0.3, 0.1)), (None, (0.5, 0.5, 0.5))], ids=["moves", "stays"])
def test_the_entropy_weight_of_hard_attention_moves_evenly_to_its_end(end, weights):
    hard = HardObjective(entropy_weight=0.5)
    config = small_config(decoder={"attention": "hard"}, hard=hard, entropy_weight_end=end, epochs=2)
    trainer = trainer_of(random_data(), config)
    for share, weight in enumerate(weights):
        trainer.taken = share * trainer.batches_an_epoch
        trainer.set_schedules()
        assert trainer.objective.entropy_weight == pytest.approx(weight)
    assert config.hard.entropy_weight == 0.5  # the settings themselves do not move


def test_every_weight_takes_a_step():
    data = random_data()
    trainer = trainer_of(data)
    before = {name: value.clone() for name, value in trainer.decoder.named_parameters()}
    for indices in batches(data.captions, 4, 0):
        take(trainer, indices)
    still = [name for name, value in trainer.decoder.named_parameters() if torch.equal(value, before[name])]
    assert still == []


@pytest.mark.parametrize("tuned", [False, True], ids=["frozen", "fine-tuned"])
def test_clipping_bounds_the_norm_of_the_whole_gradient(tuned):
    """The decoder's and the encoder's together."""
    norms = {}
    directions = {}
    for clip in (0.0, 0.3):
        trainer = trainer_of(random_data(tuned=tuned), clip=clip)
        take(trainer, batches(trainer.data.captions, 4, 0)[0])
        parameters = [parameter for group in trainer.optimizer.param_groups for parameter in group["params"]]
        whole = torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None])
        norms[clip] = float(whole.norm())
        directions[clip] = whole / whole.norm()
    assert norms[0.0] > 1 and norms[0.3] == pytest.approx(0.3, rel=1e-3)
    torch.testing.assert_close(directions[0.3], directions[0.0])


def test_the_average_follows_the_weights():
    data = random_data()
    plain = trainer_of(data)
    averaged = trainer_of(data, averaging=0.5)
    expected = {name: value.clone() for name, value in averaged.average.named_parameters()}
    for network, value in ((averaged.average, 0.0), (averaged.decoder, 1.0)):
        network.register_buffer("seen", torch.tensor(value))
    for taken, indices in enumerate(batches(data.captions, 4, 0)[:5], start=1):
        take(plain, indices)
        take(averaged, indices)
        assert differing(dict(plain.average.named_parameters()), dict(plain.decoder.named_parameters())) == []
        decay = min(0.5, (1 + taken) / (10 + taken))  # young averages forget faster
        for name, value in averaged.decoder.named_parameters():
            expected[name] = decay * expected[name] + (1 - decay) * value.detach()
    torch.testing.assert_close(dict(averaged.average.named_parameters()), expected)
    assert averaged.average.seen == 1


def test_a_loss_that_is_no_number_is_told_to_the_user_and_nothing_is_saved(tmp_path):
    class Broken(SoftObjective):
        def __call__(self, *arguments, **options):
            loss = super().__call__(*arguments, **options)
            return Loss(loss.total * math.nan, loss.watch) if trainer.taken == 2 else loss

    trainer = trainer_of(random_data())
    state = tmp_path / "state.safetensors"
    trainer.save(state)
    before = state.read_bytes()
    trainer.objective = Broken()
    for batch in trainer.mini_batches():
        trainer.take(batch)
    for wait in (trainer.read_losses, lambda: trainer.save(state)):
        broken = list(trainer.unread)
        with pytest.raises(SatError, match=r"loss became nan at batch 3: lower the learning rate \(0\.01\) or"):
            wait()
        trainer.unread = broken
    assert state.read_bytes() == before  # what is spoiled is never saved


def test_the_scale_makes_annotations_of_unit_mean_square():
    data = random_data()
    trainer = trainer_of(data)
    together = data.views[0][sorted({name for name, _ in data.captions})]
    assert float((together * trainer.decoder.annotation_scale).square().mean()) == pytest.approx(1, rel=1e-5)
    assert annotation_scale(data) == pytest.approx(float(trainer.decoder.annotation_scale))
    unscaled = trainer_of(data, decoder={"annotation_norm": "layer"})
    assert float(unscaled.decoder.annotation_scale) == 1


def test_the_history_becomes_the_decoders_own_words_as_training_goes_on():
    data = random_data()
    trainer = trainer_of(data, epochs=2, scheduled_sampling_end=0.6)
    with torch.no_grad():  # so that every own word is one and the same
        trainer.decoder.output_bias[5] = 100.0
    captions = torch.tensor([words for _, words in data.captions if len(words) == len(data.captions[0][1])])
    captions = captions.masked_fill(captions == 5, 6).repeat(40, 1)
    names = [data.captions[0][0]] * len(captions)
    annotations = data.views[0][names]
    assert torch.equal(trainer.history(annotations, captions), captions)  # none at the start
    for done in (0.5, 1.0):
        trainer.taken = int(done * 2 * trainer.batches_an_epoch)
        trainer.set_schedules()
        found = trainer.history(annotations, captions)
        own = found != captions
        assert (found[own] == 5).all()
        assert own.float().mean().item() == pytest.approx(0.6 * done, abs=0.08)


def test_the_decoders_own_words_never_end_the_caption():
    data = random_data()
    trainer = trainer_of(data, epochs=1, scheduled_sampling=1.0)
    with torch.no_grad():
        trainer.decoder.output_bias[Vocabulary.END] = 100.0
    trainer.taken = trainer.batches_an_epoch  # all words are its own
    captions = torch.tensor([data.captions[0][1]])
    found = trainer.history(data.views[0][[data.captions[0][0]]], captions)
    assert not (found == Vocabulary.END).any()


def test_what_some_lengths_do_not_have_is_the_mean_of_those_that_do():
    """Of hard attention a group of one length may have no sampled path, while the encoder is fine-tuned."""
    one = torch.tensor(2.0)
    other = torch.tensor(5.0)
    losses = [(0.4, Loss(one, {"nats": one})), (0.2, Loss(one, {"nats": other})), (0.4, Loss(one, {}))]
    assert joined(losses).watch["nats"].item() == pytest.approx((2 * 2 + 5) / 3)


def test_captions_without_photos_teach_words_and_leave_the_photos_alone():
    """Their loss is that of captions of a photo whose annotations are zero; photos and their draws stay the same."""
    texts = [[5, 6, 7, Vocabulary.END], [8, 9, Vocabulary.END], [7, 5, 6, Vocabulary.END]]
    data = replace(random_data(), text_corpus=texts)
    soft = SoftObjective(doubly_stochastic=0.0, label_smoothing=0.3)
    trainer = trainer_of(data, soft=soft)
    assert sorted(map(sorted, trainer.text_corpus)) == [[0, 2], [1]]

    before = trainer.generator.get_state()
    drawn = trainer.draw_texts(6)
    found = trainer.with_texts(Loss(torch.zeros(()), {}), drawn, 1.0)
    trainer.generator.set_state(before)
    group = trainer.text_corpus[int(torch.multinomial(torch.tensor([1.0, 2.0]), 1, generator=trainer.generator))]
    chosen = torch.randint(len(group), (6,), generator=trainer.generator)
    captions = torch.tensor([texts[group[number]] for number in chosen])
    with trainer.autocast:
        expected = soft(trainer.decoder.teacher_forcing(torch.zeros(6, 1, D), captions), captions)
    assert torch.allclose(found.total, expected.total)

    with ThreadPoolExecutor() as reader:
        trainer.generator.set_state(before)
        (both,) = trainer.mini_batch([1, 3, 5], reader)
        trainer.generator.set_state(before)
        drawn = trainer.draw([1, 3, 5])
        photos = trainer.loss_of_drawn(drawn, data.views[0][drawn.names])
        whole = trainer.with_texts(photos, trainer.draw_texts(3), 1.0)
        assert whole.total > photos.total and torch.equal(both.loss().total, whole.total)
    nats = [figures["text_nats"] for figures in steps(trainer, epochs=3)]
    assert nats[-1] < nats[0]  # they are learnt
