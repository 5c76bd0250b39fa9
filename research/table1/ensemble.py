"""Several decoders as one, by the mean of their probabilities: Σ in the paper's Table 1.

    PYTHONPATH=research python -m table1.ensemble flickr8k/ runs/nic-1 runs/nic-2 runs/nic-3 --json scores.json

B batch · P paths of one photo · L locations · K vocabulary.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from measure import arguments
from torch import Tensor, nn

from show_attend_tell.backends.torch import TorchBackend, build_decoder
from show_attend_tell.captioner import Captioner
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.packing import as_tensors
from show_attend_tell.cli.evaluate import write_scores
from show_attend_tell.data.datasets import read_dataset
from show_attend_tell.devices import pick_device
from show_attend_tell.errors import SatError
from show_attend_tell.evaluation import evaluate
from show_attend_tell.model.attention import AttentionMode
from show_attend_tell.model.config import Config
from show_attend_tell.model.interface import MEAN_ATTENTION, Decoder, Parts, State, Step, initial_state
from show_attend_tell.model.kernels import promote
from show_attend_tell.vision.encoder import load_encoder


class Ensemble(Decoder):
    """p(y_t) = (1/M) Σ_m p_m(y_t) over M decoders of one vocabulary, each with a state of its own.

    α and β are the members' means, and None if a member has none. When locations are sampled, each member samples one
    from its own α, by the same random numbers; `Step.locations` is None.
    """

    def __init__(self, members: Sequence[Decoder]) -> None:
        super().__init__()
        self.members = tuple(members)
        self.registered = nn.ModuleList(members)  # so that `to` and `eval` reach them
        self.vocabulary_size = members[0].vocabulary_size

    @property
    def config(self) -> Config:  # type: ignore[override]
        raise SatError("Ensembles cannot be trained or saved: train and save the members")

    @property
    def attends(self) -> bool:
        return all(member.attends for member in self.members)

    def start(self, annotations: Tensor, *, paths: int = 1) -> State:
        """The members' states side by side: a source and a memory have one part for each."""
        return State(*zip(*(initial_state(member, annotations, paths=paths) for member in self.members), strict=True))

    def embed(self, words: Tensor) -> tuple[Parts, ...]:
        """The words (...) as each member embeds them."""
        return tuple(member.embed(words) for member in self.members)

    def step(self, embedded: tuple[Parts, ...], state: State, mode: AttentionMode = MEAN_ATTENTION) -> Step:
        """One step of every member; the output is log p (B, P, K)."""
        modes = [*(copy.copy(mode) for _ in self.members[1:]), mode]  # a mode may count its steps: this is one step
        of_members = zip(self.members, embedded, state.source, state.memory, modes, strict=True)
        steps = [
            member.step(words, State(source, memory), own_mode)
            for member, words, source, memory, own_mode in of_members
        ]
        log_probabilities = [
            torch.log_softmax(promote(member.read_out(step.output)), dim=-1)
            for member, step in zip(self.members, steps, strict=True)
        ]
        return Step(
            output=torch.stack(log_probabilities).logsumexp(0) - math.log(len(steps)),
            state=State(*zip(*(step.state for step in steps), strict=True)),
            alpha=mean([step.alpha for step in steps]),
            beta=mean([step.beta for step in steps]),
        )

    def read_out(self, output: Tensor) -> Tensor:
        """log p (..., K), which are logits too."""
        return output


def mean(tensors: Sequence[Tensor | None]) -> Tensor | None:
    """The mean of tensors of one shape; None if one is missing."""
    present = [part for part in tensors if part is not None]
    return torch.stack(present).mean(0) if len(present) == len(tensors) else None


def load(folders: Sequence[Path], device: str = "cpu") -> Captioner:
    """The models of some folders as one, with the first one's generation settings and its reranker.

    Raises `SatError` for models of different vocabularies or encoders, and for encoders that were fine-tuned.
    """
    checkpoints = [Checkpoint.load(folder) for folder in folders]
    first = checkpoints[0]
    for folder, other in zip(folders[1:], checkpoints[1:], strict=True):
        frozen = first.tuned_encoder is None and other.tuned_encoder is None
        encoder = frozen and other.encoder == first.encoder
        if not encoder or other.vocabulary != first.vocabulary:
            raise SatError(
                f"{folders[0].name} and {folder.name} cannot be an ensemble, because they do not have the same "
                f"{'vocabulary' if encoder else 'encoder'}: train both on the same captions and with the same frozen "
                "encoder"
            )
    name = " + ".join(folder.name for folder in folders)
    tuned = None if first.tuned_encoder is None else as_tensors(first.tuned_encoder)
    encoder = first.encoder.load(load_encoder, name, tuned=tuned)
    ensemble = Ensemble([build_decoder(each, folder.name) for each, folder in zip(checkpoints, folders, strict=True)])
    backend = TorchBackend(ensemble, encoder, device=pick_device(device))
    return Captioner(replace(first, confidence=None), backend, name=name)


def main(given: Sequence[str] | None = None) -> None:
    """Caption a split, print its scores, and write them with the captions."""
    parser = arguments("Score captions of an ensemble.", split="test", seeded=False)
    parser.add_argument("models", type=Path, nargs="+", help="folders of the models")
    options = parser.parse_args(given)
    dataset = read_dataset(options.data)
    captioner = load(options.models, options.device)
    config = captioner.resolve_config()
    result = evaluate(captioner, dataset, options.split, config, cache=options.cache)
    title = f"{captioner.name} on {dataset.name} {options.split}"
    write_scores(options.json and str(options.json), result, title, config.summary())


if __name__ == "__main__":
    main()
