"""Splits of custom data: photos get train, val or test at random, by name, and exact copies stay together."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from show_attend_tell.data.datasets.dataset import SPLITS

TRAIN_SHARE, VAL_SHARE = 0.90, 0.05  # the rest is test
FEWEST_WITH_TEST = 10  # photos; with fewer, test gets none
AT_LEAST = 10  # photos of val and of test, where this is not more than a tenth of all


def split_at_random(groups: Sequence[Sequence[str]], splits: Collection[str] = SPLITS) -> dict[str, str]:
    """The split of each photo, by a hash of its name; a group has the names of one photo and its copies.

    Val and test then get training photos until they have a tenth of all photos or ten; of fewer than ten photos, test
    gets none.
    """
    order = sorted(groups, key=lambda group: position(min(group)))
    photos = sum(map(len, groups))
    wanted = [split for split in ("val", "test") if split in splits and (split == "val" or photos >= FEWEST_WITH_TEST)]
    chosen = []  # the split of each group
    for group in order:
        at = position(min(group))
        split = "train" if at < TRAIN_SHARE else "val" if at < TRAIN_SHARE + VAL_SHARE else "test"
        chosen.append(split if split in wanted else "train")
    quota = max(1, min(AT_LEAST, photos // 10))
    if "train" not in chosen and chosen:
        chosen[0] = "train"
    for split in wanted:
        have = sum(len(group) for group, its in zip(order, chosen, strict=True) if its == split)
        while have < quota and chosen.count("train") > 1:
            last = len(chosen) - 1 - chosen[::-1].index("train")
            chosen[last] = split
            have += len(order[last])
    if "val" in wanted and "val" not in chosen and "test" in chosen:
        chosen[chosen.index("test")] = "val"
    return {name: split for group, split in zip(order, chosen, strict=True) for name in group}


def position(name: str) -> float:
    """Where a photo lies between 0 and 1, by its name alone."""
    number = int.from_bytes(hashlib.sha256(f"show-attend-tell {name}".encode("utf-8", "surrogatepass")).digest()[:8])
    return number % 100 / 100 + number / 2**64 / 1000  # the hundredth decides; the rest puts those of one in an order


def with_copies(photos: Mapping[str, Path]) -> list[list[str]]:
    """The names of photos in groups: each photo with those whose files hold the same bytes."""
    groups = []
    for names in _grouped(photos, lambda name: photos[name].stat().st_size):
        groups += _grouped(names, lambda name: _digest(photos[name])) if len(names) > 1 else [names]
    return groups


def _grouped(names: Iterable[str], key: Callable[[str], object]) -> list[list[str]]:
    """Names in groups of one key; one whose file cannot be read is alone."""
    groups: dict[object, list[str]] = defaultdict(list)
    for name in names:
        try:
            groups[key(name)].append(name)
        except OSError:
            groups[name].append(name)
    return list(groups.values())


def _digest(photo: Path) -> bytes:
    with open(photo, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def copies_elsewhere(groups: Iterable[Sequence[str]], split_of: Mapping[str, str]) -> set[str]:
    """The photos to leave out so that no copy is in two splits: test keeps its photos first, then val, then train."""
    left_out: set[str] = set()
    for group in groups:
        here = Counter(split_of[name] for name in group)
        keeps = next(split for split in reversed(SPLITS) if here[split])
        left_out |= {name for name in group if split_of[name] != keeps}
    return left_out
