"""The paper's recurrence over a whole caption at once, forward and backward: what `AttentionDecoder.step` does word by
word, up to twice as fast on a CPU.

B batch · P paths of one photo · T steps · L locations · D annotation size · A attention size · n LSTM size.

Three things make it fast:

- σ(2(k + q)) = 1 / (1 + exp(−2k) · exp(−2q)). The exponential of the keys k is taken once a photo and that of the
  query q once a step, so that each of the B·P·T·L·A values costs a product and a division. Keys and queries beyond ±20
  count as ±20; those of trained models stay far below that.
- These values are never stored. The backward pass computes them again.
- The weights' gradients are one product over all steps, and the gates, the query and β one product on h.

The equations of the backward pass are those that `step` has by automatic differentiation; the tests hold one against
the other.
"""

from typing import Any

import torch
from torch import Tensor

from show_attend_tell.model.kernels import Kernels


class Unroll(torch.autograd.Function):
    """h_t (B, P, T, n), the gated ẑ_t (B, P, T, D), α (B, P, T, L), β (B, P, T) and locations (B, P, T), or None.

    Gets the words' share of the gates with its bias, (B, 1, T, 4n); annotations (B, L, D) and keys (B, L, A); the
    first h and c (B, n); the weights that are multiplied by h (4n + A + 1, n), or (4n + A, n) without a gate, by ẑ
    (4n, D), and in the attention (A,); the gate's bias (1,) or None. ``uniforms`` (B, P, T) draw a location at each
    step, which is the context of the paths where ``expect`` (B, P) is false; without them there is one path.
    """

    @staticmethod
    def forward(
        ctx: Any,
        words: Tensor,
        annotations: Tensor,
        keys: Tensor,
        hidden: Tensor,
        memory: Tensor,
        from_hidden: Tensor,
        from_context: Tensor,
        energy: Tensor,
        gate_bias: Tensor | None,
        expect: Tensor | None,
        uniforms: Tensor | None,
        kernels: Kernels,
    ) -> tuple[Tensor | None, ...]:
        # what is compiled gets tensors of its own, since it is compiled anew for other strides and offsets, and for
        # tensors that need a gradient
        words = words.detach()
        keys = keys.detach()
        B, _, T, _ = words.shape
        n, A = hidden.shape[-1], energy.shape[0]
        P = 1 if uniforms is None else uniforms.shape[1]
        L, D = annotations.shape[1:]
        dtype, state = from_hidden.dtype, memory.dtype
        exp_keys = kernels.exponentials(keys)
        twice = 2 * energy.to(state)
        h, c = (part.detach()[:, None].expand(-1, P, -1).contiguous() for part in (hidden, memory))
        new = annotations.new_empty
        hiddens, contexts = new(B, P, T, n), new(B, P, T, D)
        before, ungated = new(B, P, T, n), new(B, P, T, D)
        betas = new(B, P, T, dtype=state)
        alphas, queries, activations, memories = [], [], [], [c]
        locations = None
        if uniforms is not None:
            locations = torch.empty((B, P, T), dtype=torch.long, device=words.device)
        for t in range(T):
            before[:, :, t] = h = h.to(dtype)
            product = h @ from_hidden.T
            query, alpha = kernels.attend(exp_keys, product[..., 4 * n : 4 * n + A], twice)
            queries.append(query)
            alphas.append(alpha)
            context = alpha.to(dtype) @ annotations
            if locations is not None and uniforms is not None and expect is not None:
                below = alpha.cumsum(-1) <= uniforms[:, :, t, None]
                locations[:, :, t] = below.sum(-1).clamp_max(L - 1)
                drawn = annotations.gather(1, locations[:, :, t, None].expand(-1, -1, D))
                context = torch.where(expect[..., None], context, drawn)
            ungated[:, :, t] = context
            if gate_bias is not None:
                beta = torch.sigmoid(product[..., -1:].to(state) + gate_bias.to(state))
                betas[:, :, t] = beta[..., 0]
                context = beta.to(dtype) * context
            contexts[:, :, t] = context
            word = words[:, :, t].clone()
            activation, c, h = kernels.advance(word, product[..., : 4 * n], context @ from_context.T, c)
            activations.append(activation)
            memories.append(c)
            hiddens[:, :, t] = h
        ctx.save_for_backward(
            annotations, from_hidden, from_context, energy, gate_bias, expect, locations,
            exp_keys, before, ungated, contexts, betas,
        )  # fmt: skip
        ctx.steps = alphas, queries, activations, memories
        ctx.kernels = kernels
        ctx.sizes = (B, P, T, L, D, n, A)
        ctx.mark_non_differentiable(*([locations] if locations is not None else []))
        return hiddens, contexts, torch.stack(alphas, dim=2), betas, locations

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_hiddens: Tensor, d_contexts: Tensor, d_alphas: Tensor, d_betas: Tensor, _: Any) -> Any:
        (
            annotations, from_hidden, from_context, energy, gate_bias, expect, locations,
            exp_keys, before, ungated, contexts, betas,
        ) = ctx.saved_tensors  # fmt: skip
        alphas, queries, activations, memories = ctx.steps
        kernels = ctx.kernels
        B, P, T, L, D, n, A = ctx.sizes
        dtype, state = from_hidden.dtype, betas.dtype
        keys_last = exp_keys.mT.contiguous()  # (B, A, L)
        twice = 2 * energy.detach().to(state)
        products = before.new_empty(B, P, T, from_hidden.shape[0])  # gradients of the product on h
        slopes = memories[0].new_empty(B, P, T, L)
        d_attended = before.new_empty(B, P, T, D)
        d_energy = torch.zeros_like(twice)
        d_h = torch.zeros_like(memories[0])
        d_c = torch.zeros_like(d_h)
        for t in reversed(range(T)):
            d_h = d_h + d_hiddens[:, :, t]
            d_gates, d_c = kernels.advance_slopes(d_h, d_c, activations[t], memories[t], memories[t + 1])
            d_product = products[:, :, t]
            d_product[..., : 4 * n] = d_gates
            d_context = d_contexts[:, :, t] + d_product[..., : 4 * n] @ from_context  # ẑ (B, P, D)
            if gate_bias is not None:
                beta = betas[:, :, t, None]
                d_beta = (d_context.to(state) * ungated[:, :, t]).sum(-1, keepdim=True) + d_betas[:, :, t, None]
                d_product[..., -1:] = d_beta * beta * (1 - beta)
                d_context = d_context * beta.to(dtype)
            d_attended[:, :, t] = d_context
            through = d_context if expect is None else d_context * expect[..., None]
            slope = kernels.attend_slopes(through, annotations.detach(), alphas[t], d_alphas[:, :, t].clone())
            slopes[:, :, t] = slope
            once, squared = kernels.query_sums(keys_last, queries[t], slope)
            d_product[..., 4 * n : 4 * n + A] = 2 * twice * (once - squared)
            d_energy += 2 * once.sum((0, 1))
            d_h = (d_product @ from_hidden).to(state)
        d_keys = kernels.key_sums(exp_keys, torch.stack(queries, 2).flatten(1, 2), slopes.flatten(1, 2), 2 * twice)
        flat = products.flatten(0, 2)
        rows = slice(0, 4 * n)
        d_from_hidden = flat.T @ before.flatten(0, 2)
        d_from_context = flat[:, rows].T @ contexts.flatten(0, 2)
        d_annotations = None
        if ctx.needs_input_grad[1]:
            weights = torch.stack(alphas, dim=2)
            if locations is not None:
                drawn = torch.nn.functional.one_hot(locations, L).to(state)
                weights = torch.where(expect[:, :, None, None], weights, drawn)
            d_annotations = weights.flatten(1, 2).to(dtype).mT @ d_attended.flatten(1, 2)
        d_bias = None if gate_bias is None else products[..., -1].to(state).sum().reshape(1).to(gate_bias.dtype)
        d_words = products[..., rows].sum(1, keepdim=True)
        return (
            d_words, d_annotations, d_keys, d_h.sum(1), d_c.sum(1), d_from_hidden, d_from_context,
            d_energy.to(energy.dtype), d_bias, None, None, None,
        )  # fmt: skip
