"""The authors' program "arctic-captions" in plain NumPy, and files as it writes them: what an import is held against.

Written from its equations, with rows times matrices as it has them, in float64 and one caption at a time. Nothing is
shared with the package. B is one; C words of a caption, end token included · L places.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

# No two axes have one size.
OPTIONS: dict[str, Any] = {
    "n_words": 23,
    "dim_word": 7,
    "ctx_dim": 5,
    "dim": 11,
    "attn_type": "deterministic",
    "n_layers_att": 1,
    "n_layers_out": 1,
    "n_layers_lstm": 1,
    "n_layers_init": 1,
    "lstm_encoder": False,
    "prev2out": True,
    "ctx2out": True,
    "selector": True,
    "use_dropout": True,
    "use_dropout_lstm": False,
    "temperature": 1.0,
    "semi_sampling_p": 0.5,
    "alpha_c": 1.0,
    "optimizer": "adam",
    "saveto": "model.npz",
    "dictionary": None,
}
WORDS = {f"word{number}": number for number in range(2, OPTIONS["n_words"])}


class DecoderOutput(NamedTuple):
    """What the program computes of a caption."""

    log_p: ndarray  # (C, K)
    alpha: ndarray  # (C, L)
    beta: ndarray  # (C,), ones without a selector


def random_parameters(options: Mapping[str, Any], seed: int = 0) -> dict[str, ndarray]:
    """Parameters of a model with these options, drawn wide enough to matter, in float32."""
    K, m, D, n = (options[name] for name in ("n_words", "dim_word", "ctx_dim", "dim"))
    shapes: dict[str, tuple[int, ...]] = {"Wemb": (K, m)}

    def layer(name: str, inputs: int, outputs: int) -> None:
        shapes.update({f"{name}_W": (inputs, outputs), f"{name}_b": (outputs,)})

    for number in range(1, options["n_layers_init"]):
        layer(f"ff_init_{number}", D, D)
    layer("ff_state", D, n)
    layer("ff_memory", D, n)
    shapes |= {"decoder_W": (m, 4 * n), "decoder_U": (n, 4 * n), "decoder_b": (4 * n,), "decoder_Wc": (D, 4 * n)}
    shapes |= {"decoder_Wc_att": (D, D), "decoder_Wd_att": (n, D), "decoder_b_att": (D,)}
    for number in range(1, options["n_layers_att"]):
        shapes |= {f"decoder_W_att_{number}": (D, D), f"decoder_b_att_{number}": (D,)}
    shapes |= {"decoder_U_att": (D, 1), "decoder_c_tt": (1,)}
    if options["selector"]:
        shapes |= {"decoder_W_sel": (n, 1), "decoder_b_sel": ()}
    layer("ff_logit_lstm", n, m)
    if options["ctx2out"]:
        layer("ff_logit_ctx", D, m)
    for number in range(1, options["n_layers_out"]):
        layer(f"ff_logit_h{number}", m, m)
    layer("ff_logit", m, K)
    random = np.random.default_rng(seed)
    return {name: np.asarray(random.normal(0, 0.9, shape), np.float32) for name, shape in shapes.items()}


def teacher_forcing(
    options: Mapping[str, Any],
    parameters: Mapping[str, ndarray],
    annotations: ndarray,
    words: Sequence[int],
    *,
    locations: Sequence[int] | str | None = None,
) -> DecoderOutput:
    """A caption told with the noise off, as the program evaluates it.

    It reads the mean, or looks at the given places, or at the argmax for "argmax".
    """
    p = {name: np.asarray(value, np.float64) for name, value in parameters.items()}
    a, n = np.asarray(annotations, np.float64), options["dim"]

    def layer(name: str, values: ndarray) -> ndarray:
        return values @ p[f"{name}_W"] + p[f"{name}_b"]

    def dropout(values: ndarray) -> ndarray:
        return values * 0.5 if options["use_dropout"] else values

    mean = a.mean(0)
    for number in range(1, options["n_layers_init"]):
        mean = dropout(np.maximum(0, layer(f"ff_init_{number}", mean)))
    h, c = np.tanh(layer("ff_state", mean)), np.tanh(layer("ff_memory", mean))

    keys = a @ p["decoder_Wc_att"] + p["decoder_b_att"]
    for number in range(1, options["n_layers_att"]):
        keys = np.tanh(keys @ p[f"decoder_W_att_{number}"] + p[f"decoder_b_att_{number}"])

    log_p, alphas, betas = [], [], []
    for t in range(len(words)):
        embedding = np.zeros(options["dim_word"]) if t == 0 else p["Wemb"][words[t - 1]]

        energy = (np.tanh(keys + h @ p["decoder_Wd_att"]) @ p["decoder_U_att"])[:, 0] + p["decoder_c_tt"]
        if options["attn_type"] == "stochastic":
            energy = options["temperature"] * energy
        alpha = np.exp(energy) / np.exp(energy).sum()
        location = alpha.argmax() if locations == "argmax" else None if locations is None else locations[t]
        context = alpha @ a if location is None else a[location]
        beta = 1.0
        if options["selector"]:
            beta = 1 / (1 + np.exp(-(h @ p["decoder_W_sel"] + p["decoder_b_sel"])[0]))
        context = beta * context

        gates = h @ p["decoder_U"] + embedding @ p["decoder_W"] + p["decoder_b"] + context @ p["decoder_Wc"]
        i, f, o, g = np.split(gates, 4)
        if options["use_dropout_lstm"]:
            i, f, o = 0.5 * i, 0.5 * f, 0.5 * o
        i, f, o = (1 / (1 + np.exp(-gate)) for gate in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        assert h.shape == (n,)

        logit = layer("ff_logit_lstm", dropout(h))
        if options["prev2out"]:
            logit = logit + embedding
        if options["ctx2out"]:
            logit = logit + layer("ff_logit_ctx", context)
        logit = dropout(np.tanh(logit))
        for number in range(1, options["n_layers_out"]):
            logit = dropout(np.maximum(0, layer(f"ff_logit_h{number}", logit)))
        logit = layer("ff_logit", logit)
        log_p.append(logit - np.log(np.exp(logit).sum()))
        alphas.append(alpha)
        betas.append(beta)
    return DecoderOutput(np.array(log_p), np.array(alphas), np.array(betas))


def python2_pickle(values: Mapping[str, Any]) -> bytes:
    """A dict as Python 2 pickles it by default, with protocol 0."""
    lines = ["(dp0\n"]
    for number, (name, value) in enumerate(values.items(), start=1):
        lines.append(f"S{name!r}\np{2 * number}\n")
        if value is None:
            lines.append("N")
        elif isinstance(value, bool):
            lines.append(f"I0{value:d}\n")
        elif isinstance(value, int):
            lines.append(f"I{value}\n")
        elif isinstance(value, float):
            lines.append(f"F{value!r}\n")
        else:
            lines.append(f"S{value!r}\np{2 * number + 1}\n")
        lines.append("s")
    return "".join([*lines, "."]).encode("ascii")


class Files(NamedTuple):
    """What the command gets."""

    model: Path
    options: Path
    dictionary: Path


def write_files(
    folder: Path,
    options: Mapping[str, Any],
    parameters: Mapping[str, ndarray],
    words: Mapping[str, int] = WORDS,
) -> Files:
    """The files of a model, with what else the program saves: its history, and all parameters again as a pickle."""
    files = Files(folder / "model.npz", folder / "model.npz.pkl", folder / "dictionary.pkl")
    again = np.array(dict(parameters), dtype=object)
    history: dict[str, Any] = {"history_errs": [[3.5, 3.6]], "zipped_params": again, "valid_err": 3.5}
    np.savez(files.model, **history, **parameters)
    files.options.write_bytes(python2_pickle(options))
    files.dictionary.write_bytes(python2_pickle(words))
    return files
