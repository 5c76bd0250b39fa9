"""Training in several processes (*ranks*) that ``torchrun`` starts: how they share the work, and how they end.

Every rank holds all weights and takes the same steps. Random numbers of a step are the same on every rank, for the
whole mini-batch. Each rank computes with its own rows of the batch, and PyTorch's `DistributedDataParallel` averages
the gradients. Only dropout differs between ranks, since two ranks need different masks.

Rank 0 alone writes files and log messages. A process that ``torchrun`` did not start is rank 0 of 1, and nothing here
changes what it computes.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel

from show_attend_tell.devices import pick_device
from show_attend_tell.errors import SatError

T = TypeVar("T")

LOGGER = logging.getLogger("show_attend_tell")
ENCODING = timedelta(days=30)  # how long a rank may wait until the others have encoded their photos


def launched() -> bool:
    """Whether ``torchrun`` started this process and others."""
    return "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def rank() -> int:
    """The rank of this process, 0 where it is the only one."""
    return int(os.environ["RANK"]) if launched() else 0


def world_size() -> int:
    """How many ranks there are."""
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def is_main() -> bool:
    """Whether this process is the rank that writes files and log messages."""
    return rank() == 0


def log(message: str) -> None:
    """Log a message at level INFO, on the first rank alone."""
    if is_main():
        LOGGER.info(message)


@contextmanager
def process_group(device: torch.device) -> Iterator[torch.device]:
    """Join the other ranks, if there are any, and leave them at the end. Gives the rank's own device.

    On GPUs, each rank of a machine takes one. An error of PyTorch that says that another rank is gone becomes a
    `SatError`.
    """
    if not launched() or world_size() > 1:  # joined already
        yield device
        return
    here = int(os.environ.get("LOCAL_RANK", "0"))
    if device.type == "cuda" and device.index is None:
        gpus = torch.cuda.device_count()
        if here >= gpus:
            raise SatError(
                f"process {here + 1} of this machine has no GPU of its own: start {gpus} a machine (--nproc-per-node), "
                "or give --device cpu"
            )
        device = pick_device(f"cuda:{here}")
        torch.cuda.set_device(device)
    seconds = os.environ.get("SAT_TIMEOUT", "600")
    if not seconds.isdecimal() or not int(seconds):
        raise SatError(f"SAT_TIMEOUT is {seconds!r}: give the seconds to wait for another process, 600 for example")
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    try:
        distributed.init_process_group(backend, timeout=timedelta(seconds=int(seconds)))
        yield device
    except RuntimeError as error:
        words = ("gloo", "nccl", "connection", "timed out", "timeout", "socket", "broken pipe")
        if not isinstance(error, distributed.DistError) and not any(word in str(error).lower() for word in words):
            raise
        reason = str(error).strip().splitlines()[0]
        raise SatError(
            f"process {os.environ['RANK']} of {os.environ['WORLD_SIZE']} lost the others: one of them has ended, or "
            f"did not answer for {seconds} s ({reason}). What the training saved is kept: continue with --resume"
        ) from error
    finally:
        if distributed.is_initialized():
            distributed.destroy_process_group()


# What a rank works on


class Part(NamedTuple):
    """A rank's part of a mini-batch."""

    rows: slice
    share: float  # of the batch, times the number of ranks; 0 for a rank without a row of its own


ALL = Part(slice(None), 1.0)


def part_of(rows: int) -> Part:
    """This rank's part of a mini-batch of that many rows; where none is left, the first row with a share of 0."""
    start, stop = (-(-rows * edge // world_size()) for edge in (rank(), rank() + 1))
    if start == stop:
        return Part(slice(0, 1), 0.0)
    return Part(slice(start, stop), world_size() * (stop - start) / rows)


def local_share(things: Sequence[T]) -> Sequence[T]:
    """This rank's even share of a list, in order; `gathered` joins the shares again."""
    part = part_of(len(things))
    return things[part.rows] if part.share else things[:0]


@contextmanager
def own_dropout(device: torch.device, *step: int) -> Iterator[None]:
    """Give PyTorch's global generator a seed of this rank and ``step`` meanwhile; with one process nothing changes."""
    if world_size() == 1:
        yield
        return
    seed = hashlib.sha256(repr((*step, rank())).encode()).digest()[:8]
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        torch.manual_seed(int.from_bytes(seed) >> 1)
        yield


# Collectives


def all_reduce_sum(values: Tensor) -> Tensor:
    """The sum of a tensor over the ranks, in place where there are several."""
    if world_size() > 1:
        distributed.all_reduce(values)
    return values


def any_rank(flag: bool) -> bool:
    """Whether the flag is true on any rank."""
    return flag if world_size() == 1 else bool(all_reduce_sum(torch.tensor(int(flag))))


def barrier() -> None:
    """Wait until every rank is here."""
    any_rank(False)


def gathered(part: T) -> list[T]:
    """What each rank has, in the order of the ranks."""
    if world_size() == 1:
        return [part]
    values: list[Any] = [None] * world_size()
    distributed.all_gather_object(values, part)
    return values


def check_alike(what: Callable[[], object]) -> None:
    """Raise `SatError` unless ``what`` gives the same on every rank. Slower ranks are waited for, days if need be."""
    if world_size() == 1:
        return
    digest = hashlib.sha256(repr(what()).encode()).hexdigest()
    digests: list[Any] = [None] * world_size()
    distributed.all_gather_object(digests, digest, group=distributed.new_group(backend="gloo", timeout=ENCODING))
    different = [index for index, other in enumerate(digests) if other != digests[0]]
    if different:
        raise SatError(
            f"process {different[0]} of {world_size()} has other data, settings or weights of the encoder than "
            "process 0: give all of them the same"
        )


# The gradient


def in_parallel(decoder: nn.Module, encoder: nn.Module | None) -> Callable[[Callable[[], T]], T]:
    """What calls a function that computes a loss, after which ``backward`` gives the mean gradient of all ranks."""
    if world_size() == 1:
        return lambda compute: compute()
    step = nn.ModuleList([decoder] if encoder is None else [decoder, encoder])  # all weights that are trained
    step.forward = lambda compute: compute()
    return DistributedDataParallel(step, find_unused_parameters=encoder is not None)


def averaging(parallel: object, *, last: bool) -> AbstractContextManager[None]:
    """Around a loss and its ``backward``: gradients add up on each rank, and the last one's are averaged with them."""
    if last or not isinstance(parallel, DistributedDataParallel):
        return nullcontext()
    context: AbstractContextManager[None] = parallel.no_sync()
    return context
