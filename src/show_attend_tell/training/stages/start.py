"""Stage "start": the decoder of the model to start from, as the training needs it."""

import torch

from show_attend_tell.backends.torch import build_decoder
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.model.decoder import grown, ungated
from show_attend_tell.model.interface import Decoder
from show_attend_tell.model.registry import build
from show_attend_tell.training.config import TrainingConfig
from show_attend_tell.training.data import TrainingData
from show_attend_tell.training.ranks import log
from show_attend_tell.training.start import loses_gate


def start_decoder(model: Checkpoint, config: TrainingConfig, data: TrainingData, device: torch.device) -> Decoder:
    """The model's decoder with the words that are new in the training, and without a gate that the training lacks."""
    start = build_decoder(model).to(device)
    weights = start.state_dict()
    if loses_gate(start.config, config.decoder):
        beta = mean_beta(start, data)
        log(f"the gate of the model to start from is removed; its mean {beta:.2f} scales the context's weights instead")
        weights = ungated(weights, beta)
    if len(data.vocabulary) > start.vocabulary_size:
        words = torch.tensor([word for _, caption in data.captions for word in caption])
        counts = torch.bincount(words, minlength=len(data.vocabulary))
        weights = grown(weights, counts, torch.Generator().manual_seed(config.seed))
    decoder = build(config.decoder).to(device).eval()
    decoder.load_state_dict(weights)
    return decoder


@torch.no_grad()
def mean_beta(decoder: Decoder, data: TrainingData) -> float:
    """The mean gate β of a decoder over the words of 500 to 999 training captions, by teacher forcing."""
    chosen = data.captions[:: max(1, len(data.captions) // 500)]
    device = next(decoder.parameters()).device
    betas = []
    for name, words in chosen:
        known = [word if word < decoder.vocabulary_size else Vocabulary.UNKNOWN for word in words]
        output = decoder.teacher_forcing(data.views[0][[name]].to(device), torch.tensor([known], device=device))
        assert output.beta is not None  # which `loses_gate` saw to
        betas.append(output.beta.flatten())
    return float(torch.cat(betas).mean())
