"""The paper's decoder by ONNX Runtime: graphs for its parts, made of a configuration and weights.

`session` runs a search by them.

B photos · P paths · Q histories, paths without their last word · T words of a caption · L locations · D annotation
size · A attention size · n LSTM size · m word-embedding size · K vocabulary · S = 4n + m, what enters the gates and the
deep output.

It computes what `model.decoder` computes, in float32, and takes less time for these reasons:

- Finished paths and finished photos leave the computation.
- Paths that continue the same path differ in their last word only. Without that word they are one *history*, which
  attends once (the graph `attend`); then each path advances by its word (`advance`).
- What a word adds to the gates and to the deep output is computed once in the life of an `OnnxDecoder`.
- σ(2(k + q)) = 1 / (1 + exp(−2k) · exp(−2q)), so that a step takes no exponential of each location.
- With a wide beam, the annotations are multiplied with the weights of ẑ before they are weighed by α, once a photo.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from show_attend_tell.backends.onnx.graph import Graph, Session, Value
from show_attend_tell.checkpoint.packing import as_array
from show_attend_tell.errors import InvalidValue, SatError
from show_attend_tell.model.config import LARGEST, DecoderConfig, window_side
from show_attend_tell.search.session import Numbers
from show_attend_tell.settings import EVERYWHERE
from show_attend_tell.values import Array


class OnnxDecoder:
    """A trained decoder of the paper, run by ONNX Runtime. Each graph is made when it is first needed."""

    def __init__(self, config: DecoderConfig, weights: Mapping[str, Array], locations: int) -> None:
        """Take the weights of an `AttentionDecoder` by their names."""
        self.config = config
        self.weights = weights
        self.locations = locations
        self.vocabulary_size = config.vocabulary_size
        self.side = window_side(config.annotation_window, locations)
        self.gates = 4 * config.hidden_size
        self.shared = self.gates + config.embedding_size  # S
        self._sessions: dict[tuple[Any, ...], Session] = {}
        self._by_word = np.empty((config.vocabulary_size + 1, self.shared), np.float32)
        self._known = np.zeros(config.vocabulary_size + 1, dtype=bool)  # rows of the table above that are computed

    def array(self, features: Any) -> NDArray[np.float32]:
        """Annotations, an array or a tensor, as float32 (B, L, D). Raises `SatError` for another shape."""
        annotations: NDArray[np.float32] = np.asarray(as_array(features), dtype=np.float32)
        if annotations.ndim != 3 or annotations.shape[1:] != (self.locations, self.config.annotation_size):
            raise SatError(
                f"annotations of shape {annotations.shape} do not fit this decoder: give "
                f"(B, {self.locations}, {self.config.annotation_size})"
            )
        return annotations

    def of_words(self, words: Numbers) -> NDArray[np.float32]:
        """Each word's share of the gates and of the deep output, biases included: (..., S) for words (...)."""
        if not self._known[words].all():
            new = np.unique(words[~self._known[words]])
            (self._by_word[new],) = self.run(self.words, words=new)
            self._known[new] = True
        return self._by_word[words]

    def run(self, make: Callable[..., Graph], *options: Any, **inputs: Array) -> list[Array]:
        """What a graph gives for inputs. One of the methods below makes it, by some options, when it is first run."""
        key = (make.__name__, *options)
        if key not in self._sessions:
            self._sessions[key] = Session(make(*options))
        return self._sessions[key](**inputs)

    def start(self, wide: bool) -> Graph:
        """Annotations (B, L, D) in; h_0 and c_0 (B, 1, n), what α weighs (B, L, ·), and exp(−2 W_a a) (B, L, A) out.

        α weighs the products of the annotations with the weights of ẑ (· is S) if ``wide``, else the annotations (D).
        """
        graph = Graph()
        config = self.config
        w = self.weights
        value, mean = self._weighed(graph)
        if config.initial_depth == 2:
            mean = graph("Relu", graph.linear(mean, w["initial.weight"], w["initial.bias"]))
        for name in ("hidden", "memory"):  # h_0 and c_0
            first = graph.linear(mean, w[f"initial_{name}.weight"], w[f"initial_{name}.bias"])
            graph.output(graph("Tanh", first), name, 3)
        read = value
        if config.attention_depth == 2:
            read = graph("Tanh", graph.linear(read, w["attention.deepen.weight"], w["attention.deepen.bias"]))
        keys = graph.linear(read, -2 * w["attention.key.weight"], -2 * w["attention.key.bias"])
        graph.output(graph.linear(value, self._from_context) if wide else value, "weighed", 3)
        graph.output(self._exponential(graph, keys), "keys", 3)
        return graph

    def _weighed(self, graph: Graph) -> tuple[Value, Value]:
        """What α weighs (B, L, D), of the input ``annotations``, and the mean of the annotations (B, 1, D)."""
        config = self.config
        value = graph.input("annotations", "B", self.locations, config.annotation_size)
        if config.annotation_norm == "layer":
            value = graph("LayerNormalization", value, np.ones(config.annotation_size), axis=-1, epsilon=1e-5)
        else:
            value = value * self.weights["annotation_scale"]
        mean = graph("ReduceMean", value, axes=[1], keepdims=1)
        if config.attention == "uniform":
            value = mean  # one location, so that α is 1 there
        elif config.annotation_window > 1:
            value = self._windowed(graph, value)
        return value, mean

    def evidence(self) -> Graph:
        """The evidence (B, T, L) of words, see `evidence_closed_form`.

        In: annotations (B, L, D); α (B, T, L) and β (B, T, 1), 1 without a gate; h and c before each step (B, T, n);
        what the words before add (B, T, S); and the words themselves (B, T).
        """
        graph = Graph()
        config = self.config
        w = self.weights
        n = config.hidden_size
        weighed = self._weighed(graph)[0]
        alpha = graph.input("alpha", "B", "T", "L")
        beta = graph.input("beta", "B", "T", 1)
        hidden, memory = (graph.input(name, "B", "T", n) for name in ("hidden", "memory"))
        words = graph.input("words", "B", "T", self.shared)
        captions = graph.input("said", "B", "T", kind="int64")

        # the step, at the mean context
        context = alpha @ weighed * beta
        hidden_gates = graph.linear(hidden, w["gates_from_hidden.weight"])
        entered = words + self._entering(graph, hidden_gates, graph.linear(context, self._from_context))
        (i, f, o, g), _, tanh, _, layers = self._advanced(graph, entered, memory)
        out = w["embedding.weight"][:-1] if config.tied_embeddings else w["output_words.weight"]
        p = graph("Softmax", graph.linear(layers[-1], out, w["output_bias"]), axis=-1)

        # and back: ∂ log p by the last layer, by the first, by h and c, by the gates, and by the context
        back = graph("Gather", out, captions) - p @ out
        for number in reversed(range(config.output_depth - 1)):
            passed = graph("Cast", graph("Greater", layers[number + 1], 0.0), to=1)
            back = back * passed @ w[f"output_layers.{number}.weight"]
        if config.output_tanh:
            back = back * (1.0 - layers[0] * layers[0])
        to_hidden = back @ w["output_hidden.weight"]
        to_memory = to_hidden * o * (1.0 - tanh * tanh)
        to_gates = [
            to_memory * g * i * (1.0 - i),
            to_memory * memory * f * (1.0 - f),
            to_hidden * tanh * o * (1.0 - o),
            to_memory * i * (1.0 - g * g),
        ]
        gradient = graph("Concat", *to_gates, axis=-1) @ w["gates_from_context.weight"]
        if config.output_context:
            gradient = gradient + back @ w["output_context.weight"]
        along = gradient * beta @ graph("Transpose", weighed, perm=[0, 2, 1])  # g · a_i
        at_mean = graph("ReduceSum", alpha * along, [-1], keepdims=1)
        graph.output(alpha * (along - at_mean), "evidence", 3)
        return graph

    @property
    def _from_context(self) -> NDArray[np.float32]:
        """The weights of ẑ in the gates and in the deep output (S, D); 0 where it does not feed the latter."""
        nothing = np.zeros((self.config.embedding_size, self.config.annotation_size), np.float32)
        deep = self.weights.get("output_context.weight", nothing)
        return np.concatenate([self.weights["gates_from_context.weight"], deep])

    def _entering(self, graph: Graph, hidden_gates: Value, context: Value) -> Value:
        """What h adds to the gates (·, 4n), and ẑ to the gates and to the deep output (·, S), together (·, S)."""
        sizes = [self.gates, self.shared - self.gates]
        context_gates, deep = graph.several(2, "Split", context, sizes, axis=-1)
        return graph("Concat", hidden_gates + context_gates, deep, axis=-1)

    def _advanced(
        self, graph: Graph, entered: Value, memory: Value
    ) -> tuple[list[Value], Value, Value, Value, list[Value]]:
        """The step by what enters (·, S) and c: the gates i, f, o, g; c, its tanh, and h; the deep output's layers."""
        config = self.config
        w = self.weights
        n = self.config.hidden_size
        sizes = [3 * n, n, self.shared - self.gates]
        three, modulator, deep = graph.several(3, "Split", entered, sizes, axis=-1)
        i, f, o = graph.several(3, "Split", graph("Sigmoid", three), [n, n, n], axis=-1)
        g = graph("Tanh", modulator)
        memory = f * memory + i * g
        tanh = graph("Tanh", memory)
        hidden = o * tanh
        deep = graph.linear(hidden, w["output_hidden.weight"]) + deep
        layers = [graph("Tanh", deep) if config.output_tanh else deep]
        for number in range(config.output_depth - 1):
            name = f"output_layers.{number}"
            layers.append(graph("Relu", graph.linear(layers[-1], w[f"{name}.weight"], w[f"{name}.bias"])))
        return [i, f, o, g], memory, tanh, hidden, layers

    def attend(self, attention_mode: str, wide: bool) -> Graph:
        """What Q histories attend to.

        In: what `start` gave, h (B, Q, n), and for sampled locations a number from 0 to 1 for each history (B, Q). Out:
        α (B, Q, L); what h and ẑ add to the gates and to the deep output (B, Q, S); β (B, Q) where there is a gate; the
        locations (B, Q) unless the mode is "mean".
        """
        if attention_mode not in EVERYWHERE:
            raise InvalidValue(
                f"attention_mode is {attention_mode!r}: ONNX Runtime has {', '.join(EVERYWHERE)}",
                remedy="choose one of them, or backend torch",
            )
        graph = Graph()
        config = self.config
        w = self.weights
        A = config.attention_size
        weighed = graph.input("weighed", "B", "L", self.shared if wide else config.annotation_size)
        keys = graph.input("keys", "B", "L", A)
        hidden = graph.input("hidden", "B", "Q", config.hidden_size)

        from_hidden = np.concatenate([w["gates_from_hidden.weight"], -2 * w["attention.query.weight"]])
        product = graph.linear(hidden, from_hidden)
        hidden_gates, query = graph.several(2, "Split", product, [self.gates, A], axis=-1)
        query = graph("Unsqueeze", self._exponential(graph, query), [2])  # (B, Q, 1, A)
        product = graph("Unsqueeze", keys, [1]) * query  # (B, Q, L, A)
        sigma = graph("Reciprocal", product + 1.0)
        energies = sigma @ (2 * w["attention.energy"][:, None])
        alpha = graph("Softmax", graph("Squeeze", energies, [-1]), axis=-1)

        locations = None
        if attention_mode == "mean":
            context = alpha @ weighed
        else:
            if attention_mode == "argmax":
                locations = graph("ArgMax", alpha, axis=-1, keepdims=0)
            else:
                uniforms = graph("Unsqueeze", graph.input("uniforms", "B", "Q"), [-1])
                below = graph("LessOrEqual", graph("CumSum", alpha, -1), uniforms)
                reached = graph("ReduceSum", graph("Cast", below, to=7), [-1], keepdims=0)
                last = graph("Gather", graph("Shape", alpha), 2) - 1
                locations = graph("Min", reached, last)
            index = graph("Unsqueeze", locations, [-1])
            context = graph("GatherND", weighed, index, batch_dims=1)
        beta = None
        if config.gate:
            # a product by itself: its weights have more bits, and the others' would be stored in as many
            beta = graph("Sigmoid", graph.linear(hidden, w["gate.weight"], w["gate.bias"]))
            context = context * beta
        if not wide:
            context = graph.linear(context, self._from_context)
        graph.output(alpha, "alpha", 3)
        graph.output(self._entering(graph, hidden_gates, context), "shares", 3)
        if beta is not None:
            graph.output(graph("Squeeze", beta, [-1]), "beta", 2)
        if locations is not None:
            graph.output(locations, "locations", 2, "int64")
        return graph

    def advance(self) -> Graph:
        """The step of P paths, which continue Q histories by a word each.

        In: the shares that `attend` gave (B, Q, S), c (B, Q, n), the history of each path (B, P), and what its word
        adds (B, P, S). Out: h and c (B, P, n), and the deep output (B, P, m).
        """
        graph = Graph()
        n = self.config.hidden_size
        memory = graph.input("memory", "B", "Q", n)
        words = graph.input("words", "B", "P", self.shared)
        shares = graph.input("shares", "B", "Q", self.shared)
        rows = graph("Unsqueeze", graph.input("rows", "B", "P", kind="int64"), [-1])
        shares, memory = (graph("GatherND", part, rows, batch_dims=1) for part in (shares, memory))
        _, memory, _, hidden, layers = self._advanced(graph, shares + words, memory)
        graph.output(hidden, "new_hidden", 3)
        graph.output(memory, "new_memory", 3)
        graph.output(layers[-1], "deep", 3)
        return graph

    def best(self) -> Graph:
        """The best words after paths.

        In: the deep output (B, P, m), the scores of the paths (B, P), ids of words and the weights that are added to
        their log p, (B, P, N) each, and how many are wanted (1,). Out: score and index in P · K (B, count) each.
        """
        graph = Graph()
        scores = self._log_probabilities(graph)
        before = graph("Unsqueeze", graph.input("before", "B", "P"), [-1])
        ids = graph.input("ids", "B", "P", "N", kind="int64")
        weights = graph.input("weights", "B", "P", "N")
        scores = graph("ScatterElements", scores + before, ids, weights, axis=2, reduction="add")
        flat = graph("Reshape", scores, [0, -1])
        best_scores, chosen = graph.several(2, "TopK", flat, graph.input("count", 1, kind="int64"), axis=-1)
        graph.output(best_scores, "scores", 2)
        graph.output(chosen, "chosen", 2, "int64")
        return graph

    def log_probabilities(self) -> Graph:
        """The deep output (B, P, m) in, log p (B, P, K) out."""
        graph = Graph()
        graph.output(self._log_probabilities(graph), "log_probabilities", 3)
        return graph

    def words(self) -> Graph:
        """Words (N,) in, their shares (N, S) out."""
        graph = Graph()
        w = self.weights
        embedding = graph("Gather", w["embedding.weight"], graph.input("words", "N", kind="int64"))
        gates = graph.linear(embedding, w["gates_from_word.weight"], w["gates_from_word.bias"])
        deep = embedding if self.config.output_word else embedding * 0.0
        deep = deep + w["output_hidden.bias"]
        graph.output(graph("Concat", gates, deep, axis=-1), "shares", 2)
        return graph

    def _log_probabilities(self, graph: Graph) -> Value:
        deep = graph.input("deep", "B", "P", self.config.embedding_size)
        tied = self.config.tied_embeddings
        words = self.weights["embedding.weight"][:-1] if tied else self.weights["output_words.weight"]
        logits = graph.linear(deep, words, self.weights["output_bias"])
        return graph("LogSoftmax", logits, axis=-1)

    def _windowed(self, graph: Graph, value: Value) -> Value:
        """Each annotation replaced by the mean of the window around it, see `decoder.windowed`."""
        window = self.config.annotation_window
        size = self.config.annotation_size
        grid = graph("Reshape", graph("Transpose", value, perm=[0, 2, 1]), [0, size, self.side, -1])
        sides: dict[str, Any] = {"kernel_shape": [window] * 2, "strides": [1, 1], "pads": [window // 2] * 4}
        means = graph("AveragePool", grid, **sides, count_include_pad=0)
        flat = graph("Reshape", means, [0, size, self.locations])
        return graph("Transpose", flat, perm=[0, 2, 1])

    @staticmethod
    def _exponential(graph: Graph, value: Value) -> Value:
        return graph("Exp", graph("Clip", value, -LARGEST, LARGEST))
