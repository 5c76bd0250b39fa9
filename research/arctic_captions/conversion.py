"""A model of the authors' program as an `AttentionDecoder`: the same function, in other weights.

D annotation size · n LSTM size · m word-embedding size · K vocabulary. The program multiplies rows by matrices, so each
matrix here is the transpose of its own. Apart from that:

| in the program | here |
| --- | --- |
| the attention MLP's hidden layer has D units | attention_size is D |
| the second attention layer: tanh((a W + b) W_1 + b_1) | W W_1 is the extra layer, and W_a is the identity |
| the initial MLPs share a ReLU layer of D units | initial_size is D |
| n_layers_out ReLU layers after the tanh, L_o included | output_depth |
| h and ẑ have a bias each in the deep output | one bias, their sum |
| dropout halves what it would drop, when captions are made | the weights that read it are halved |
| a temperature multiplies the energies of stochastic attention | it multiplies the energy's weights |
| a bias of the energy, which the softmax cancels | nothing |
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from arctic_captions.archive import read_parameters
from arctic_captions.pickles import read_dict
from show_attend_tell.checkpoint.checkpoint import Checkpoint
from show_attend_tell.checkpoint.records import EncoderRecord
from show_attend_tell.data.photos import Preprocessing
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import SatError
from show_attend_tell.messages import first_three, shorten
from show_attend_tell.model.config import DecoderConfig
from show_attend_tell.search.config import GenerationConfig
from show_attend_tell.settings import Count, Rate, settings

Parameters = Mapping[str, NDArray[np.float64]]

# Options that only training reads, and those that say how the program was started.
TRAINING = (
    *("semi_sampling_p", "alpha_entropy_c", "RL_sumCost", "patience", "max_epochs", "dispFreq", "decay_c", "alpha_c"),
    *("lrate", "maxlen", "optimizer", "batch_size", "valid_batch_size", "saveto", "validFreq", "saveFreq"),
    *("sampleFreq", "dataset", "dictionary", "reload_", "save_per_epoch"),
)


@settings
class Options:
    """The options of the authors' program that change what a model computes, under its own names.

    Raises `SatError` for a value that does not exist, and for a model that cannot be imported.
    """

    n_words: Annotated[int, Field(ge=3)]  # K
    dim_word: Count  # m
    ctx_dim: Count  # D
    dim: Count  # n
    attn_type: Literal["deterministic", "stochastic"]  # soft or hard attention
    n_layers_att: Literal[1, 2]
    n_layers_init: Literal[1, 2]
    n_layers_out: Annotated[int, Field(ge=1, le=20)]
    n_layers_lstm: Count
    lstm_encoder: bool
    prev2out: bool  # E·y_{t−1} feeds the deep output
    ctx2out: bool  # ẑ_t feeds the deep output
    selector: bool  # β
    use_dropout: bool
    use_dropout_lstm: bool
    temperature: Rate = 1.0

    def __post_init__(self) -> None:
        if self.n_layers_lstm > 1:
            raise SatError(f"n_layers_lstm is {self.n_layers_lstm}: only models with one LSTM layer can be imported")
        if self.lstm_encoder:
            raise SatError("lstm_encoder is on: models with an LSTM over the annotations cannot be imported")

    @classmethod
    def read(cls, file: Path) -> "Options":
        """Read the pickle that the program saved beside its model.

        Raises `SatError` for a damaged file, and for an option that is missing, unknown or has a wrong value.
        """
        given = read_dict(file)
        names = list(cls.__dataclass_fields__)
        if missing := [name for name in names if name not in given and name != "temperature"]:
            raise SatError(
                f"{file} lacks the options {first_three(missing)}: give the pickle that the authors' program saved "
                "with the model, MODEL.npz.pkl, and keep the order MODEL OPTIONS DICTIONARY"
            )
        if unknown := [shorten(name) for name in given if name not in (*names, *TRAINING)]:
            raise SatError(
                f"{file} has options that the authors' program lacks: {first_three(unknown)}. They may change what the "
                "model computes; if they do not, leave them out of the file"
            )
        values = {name: given[name] for name in names if name in given}
        for name, value in values.items():
            if cls.__annotations__[name] is bool and value in (0, 1):
                values[name] = bool(value)
        try:
            return cls(**values)
        except SatError as error:
            raise SatError(f"{file}: {error}") from None

    @property
    def config(self) -> DecoderConfig:
        """The configuration of the decoder that computes the same."""
        return DecoderConfig(
            vocabulary_size=self.n_words,
            annotation_size=self.ctx_dim,
            attention="soft" if self.attn_type == "deterministic" else "hard",
            embedding_size=self.dim_word,
            hidden_size=self.dim,
            attention_size=self.ctx_dim,
            attention_depth=self.n_layers_att,
            initial_depth=self.n_layers_init,
            initial_size=self.ctx_dim if self.n_layers_init == 2 else 0,
            gate=self.selector,
            output_tanh=True,
            output_word=self.prev2out,
            output_context=self.ctx2out,
            output_depth=self.n_layers_out,
            tied_embeddings=False,
            annotation_norm="scale",
            dropout=0.5 if self.use_dropout else 0.0,
        )

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The parameters of such a model, by the program's names, with their shapes."""
        K, m, D, n = self.n_words, self.dim_word, self.ctx_dim, self.dim
        layers = {"ff_state": (D, n), "ff_memory": (D, n), "ff_logit_lstm": (n, m), "ff_logit": (m, K)}
        if self.n_layers_init == 2:
            layers["ff_init_1"] = (D, D)
        if self.ctx2out:
            layers["ff_logit_ctx"] = (D, m)
        for number in range(1, self.n_layers_out):
            layers[f"ff_logit_h{number}"] = (m, m)
        found: dict[str, tuple[int, ...]] = {
            "Wemb": (K, m),
            "decoder_W": (m, 4 * n),
            "decoder_U": (n, 4 * n),
            "decoder_b": (4 * n,),
            "decoder_Wc": (D, 4 * n),
            "decoder_Wc_att": (D, D),
            "decoder_Wd_att": (n, D),
            "decoder_b_att": (D,),
            "decoder_U_att": (D, 1),
            "decoder_c_tt": (1,),
        }
        if self.n_layers_att == 2:
            found |= {"decoder_W_att_1": (D, D), "decoder_b_att_1": (D,)}
        if self.selector:
            found |= {"decoder_W_sel": (n, 1), "decoder_b_sel": ()}
        for name, (inputs, outputs) in layers.items():
            found |= {f"{name}_W": (inputs, outputs), f"{name}_b": (outputs,)}
        return found


# The paper's encoder (sec. 4.3), whose weights nobody has named yet.
AUTHORS = EncoderRecord(name="vgg19", digest=None, preprocessing=Preprocessing(resize="crop"), grid=(14, 14))


def import_arctic(model: Path, options: Path, dictionary: Path, *, encoder: Any | None = None) -> Checkpoint:
    """A model of the authors' program as a checkpoint of ours.

    ``model`` is the .npz archive, ``options`` and ``dictionary`` are pickles. ``encoder`` is the one that gave the
    model's annotations; without it, it must be named whenever the model gets photos. The checkpoint decodes as the
    program does: beam size 5, no length penalty, repetitions allowed, and the mean of attention also where it is hard.
    Raises `SatError` for files that are damaged or do not belong together, and for an encoder with another annotation
    size.
    """
    given = Options.read(options)
    if encoder is not None and encoder.annotation_size != given.ctx_dim:
        raise SatError(
            f"{options}: the model takes annotations of {given.ctx_dim} numbers (ctx_dim), and the encoder gives "
            f"{encoder.annotation_size}: import it without --encoder-weights"
        )
    found = weights(given, read_parameters(model, given.shapes))  # before anything of these sizes is made
    words = read_dictionary(dictionary, given.n_words)
    return Checkpoint(
        config=given.config,
        weights=found,
        vocabulary=words.vocabulary,
        encoder=AUTHORS if encoder is None else EncoderRecord.of(encoder),
        generation=GenerationConfig(beam_size=5, attention_mode="mean", length_penalty=0.0, allow_repetitions=True),
        training={
            "imported_from": f"{model.name}, a model of the authors' program (arctic-captions)",
            **({"words_left_out": words.left_out} if words.left_out else {}),
            **({"ids_without_a_word": words.unused} if words.unused else {}),
        },
    )


def weights(options: Options, of: Parameters) -> dict[str, NDArray[Any]]:
    """The weights of an `AttentionDecoder` that computes what the parameters compute in the authors' program."""
    D, n = options.ctx_dim, options.dim
    dropped = 0.5 if options.use_dropout else 1.0  # what the program multiplies by where dropout was
    gates = np.ones(4 * n)
    if options.use_dropout_lstm:
        gates[: 3 * n] = 0.5  # what enters the gates i, f and o, and not the modulator g
    temperature = options.temperature if options.attn_type == "stochastic" else 1.0
    found = {
        "annotation_scale": np.ones(()),
        "embedding.weight": np.vstack([of["Wemb"], np.zeros((1, options.dim_word))]),  # E·y_0 is zero
        "attention.key.weight": of["decoder_Wc_att"].T,
        "attention.key.bias": of["decoder_b_att"],
        "attention.query.weight": of["decoder_Wd_att"].T,
        "attention.energy": temperature * of["decoder_U_att"][:, 0],
        "gates_from_word.weight": (of["decoder_W"] * gates).T,
        "gates_from_word.bias": of["decoder_b"] * gates,
        "gates_from_hidden.weight": (of["decoder_U"] * gates).T,
        "gates_from_context.weight": (of["decoder_Wc"] * gates).T,
        "output_hidden.weight": dropped * of["ff_logit_lstm_W"].T,
        "output_hidden.bias": of["ff_logit_lstm_b"],
        "output_words.weight": dropped * of["ff_logit_W"].T,
        "output_bias": of["ff_logit_b"],
    }
    if options.n_layers_att == 2:
        found |= {
            "attention.deepen.weight": (of["decoder_Wc_att"] @ of["decoder_W_att_1"]).T,
            "attention.deepen.bias": of["decoder_b_att"] @ of["decoder_W_att_1"] + of["decoder_b_att_1"],
            "attention.key.weight": np.eye(D),
            "attention.key.bias": np.zeros(D),
        }
    if options.selector:
        found |= {"gate.weight": of["decoder_W_sel"].T, "gate.bias": of["decoder_b_sel"].reshape(1)}
    for ours, theirs in (("initial_hidden", "ff_state"), ("initial_memory", "ff_memory")):
        after = dropped if options.n_layers_init == 2 else 1.0  # the mean annotation itself is not dropped
        found |= {f"{ours}.weight": after * of[f"{theirs}_W"].T, f"{ours}.bias": of[f"{theirs}_b"]}
    if options.n_layers_init == 2:
        found |= {"initial.weight": of["ff_init_1_W"].T, "initial.bias": of["ff_init_1_b"]}
    if options.ctx2out:
        found["output_context.weight"] = of["ff_logit_ctx_W"].T
        found["output_hidden.bias"] = of["ff_logit_lstm_b"] + of["ff_logit_ctx_b"]
    for number in range(1, options.n_layers_out):
        found |= {
            f"output_layers.{number - 1}.weight": dropped * of[f"ff_logit_h{number}_W"].T,
            f"output_layers.{number - 1}.bias": of[f"ff_logit_h{number}_b"],
        }
    return {name: np.array(value, dtype=np.float32, order="C") for name, value in found.items()}


class Words(NamedTuple):
    """What a dictionary of the authors' program gives."""

    vocabulary: Vocabulary
    left_out: int  # words whose ids the model does not have
    unused: int  # ids that have no word


def read_dictionary(file: Path, size: int) -> Words:
    """The vocabulary of ``size`` words that the authors' program reads from its dictionary of words and their ids.

    As in the program, id 0 is the end and id 1 an unknown word, whatever the file calls them, and words with ids from
    ``size`` on are unknown. An id without a word is called ``<unused-ID>``: the model has weights for it. Raises
    `SatError` for a file that is not such a dictionary.
    """
    given = read_dict(file)
    words: dict[int, str] = {}
    left_out = 0
    for word, number in given.items():
        if not isinstance(word, str) or type(number) is not int:
            raise SatError(
                f"{file}: {shorten(word)} has the id {shorten(number)}, and a dictionary gives each word a whole "
                "number: give dictionary.pkl, and keep the order MODEL OPTIONS DICTIONARY"
            )
        if number < 0 or not word:
            raise SatError(f"{file}: {shorten(word)} has the id {number}: words are not empty, and ids start at 0")
        if 1 < number < size:
            if number in words:
                raise SatError(f"{file}: {shorten(words[number])} and {shorten(word)} have the same id {number}")
            words[number] = word
        left_out += number >= size
    if not words:
        raise SatError(f"{file} has no word with an id from 2 to {size - 1}: give the dictionary of this model")
    try:
        vocabulary = Vocabulary([words.get(number, f"<unused-{number}>") for number in range(2, size)])
    except SatError as error:
        raise SatError(f"{file}: {error}") from None
    return Words(vocabulary, left_out, size - 2 - len(words))
