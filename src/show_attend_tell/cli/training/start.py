"""What a training starts from: a model, if there is one, the encoder that goes with it, and its words."""

from typing import Any, NamedTuple

from show_attend_tell.cli.command import PAPERS_ENCODER
from show_attend_tell.errors import SatError


class Start(NamedTuple):
    """What a training starts from."""

    dataset: Any  # cut into the words that the training learns
    encoder: Any
    model: Any  # the checkpoint to start from, or None
    name: str | None  # of this model
    lines: list[str]  # what the user should know of all this


def start_of(
    dataset: Any, config: Any, init_from: str | None, encoder: str | None, *, fits: bool, **kind: Any
) -> Start:
    """What a training on a data set starts from.

    ``init_from`` is what the user named: a model, "none", or nothing. With ``fits``, the settings are fitted to own
    data. ``kind`` goes to `start_and_encoder`.
    """
    from show_attend_tell.training.presets.custom import START, cut

    lines: list[str] = []
    if init_from is None and fits and config.decoder.attention == "soft":
        model, network = own_start(dataset, config, encoder, log=lines.append, **kind)
        name = START if model is not None else None
    else:
        name = None if init_from == "none" else init_from
        model, network = start_and_encoder(name, encoder, **kind)
    dataset, line = cut(dataset, config, model)
    return Start(dataset, network, model, name, [*lines, line])


def own_start(dataset: Any, config: Any, encoder: str | None, *, log: Any, **kind: Any) -> tuple[Any, Any]:
    """The default model, if own data is one to start from it with, and the encoder; says which and why."""
    from show_attend_tell.training.presets.custom import SMALL, START, why_afresh
    from show_attend_tell.training.run import check_start

    reason = why_afresh(dataset)
    if not reason:
        start, network = start_and_encoder(START, encoder, **kind)
        try:
            check_start(start, config.decoder, network)
        except SatError as error:
            reason = str(error).replace("the model to start from", START).split(":")[0]
        else:
            log(
                f"fewer than {SMALL:,} photos of train, with English captions: the training starts from {START} and "
                f"sees photos as it does (--resize {network.preprocessing.resize}). --init-from none starts afresh"
            )
            return start, network
    log(f"the training starts afresh, not from {START}: {reason}")
    return start_and_encoder(None, encoder, **kind)


def check_trained(encoder: str | None) -> None:
    """Raise `SatError` for an encoder that sees nothing yet, where it is not going to be trained."""
    if encoder == "small":
        raise SatError("--encoder small has random weights until it is trained: use sat train --encoder-lr 1e-3")


def start_and_encoder(
    init_from: str | None,
    encoder: str | None,
    *,
    weights: str | None,
    resize: Any,
    encoder_lr: float | None = None,
) -> tuple[Any, Any]:
    """The model to start from, if one is named, and the encoder, with the weights that this model was trained with.

    An ``encoder`` of None is that of the model to start from, or the paper's; a ``resize`` of None too, or a crop.
    """
    from show_attend_tell.checkpoint.checkpoint import Checkpoint
    from show_attend_tell.checkpoint.hub import find_model
    from show_attend_tell.checkpoint.packing import as_tensors
    from show_attend_tell.vision.encoder import load_encoder

    start = Checkpoint.load(find_model(init_from)) if init_from is not None else None
    tuned = None if start is None else start.tuned_encoder
    if resize is None:
        resize = "crop" if start is None else start.encoder.preprocessing.resize
    if encoder_lr is None and tuned is None:
        check_trained(encoder)
    encoder = encoder or (start.encoder.name if start is not None else PAPERS_ENCODER)
    network = load_encoder(encoder, weights=weights, resize=resize)
    if start is not None and tuned is not None and start.encoder.name == network.name:
        network.adopt(as_tensors(tuned))
    return start, network
