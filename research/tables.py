"""The tables of README and docs that come from the evaluations in results/: made here, and never written by hand.

    python research/tables.py          # write the tables into README.md and docs/ anew
    python research/tables.py scores   # print one
    python research/tables.py --check  # say which documents have other tables; `make test` does this

A document says where a table goes: between a line `<!-- table NAME, by research/tables.py -->` and a line
`<!-- end of table -->`.
"""

import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import chart
import reproduction
import results
from ablation import SEARCHED
from ablation import SHOWN as CLASSES
from attention.controls import CONTROLS
from attention.maps import HIDDEN, MAPS, PARTS
from attention.occlusion import VARIANTS
from hide import PLACES
from reproduction import SEEDS
from stages import new_parser, reporting

from show_attend_tell.checkpoint.hub import SHIPPED, shipped_size
from show_attend_tell.errors import SatError
from show_attend_tell.files import read_object, read_text, write_text

ROOT = Path(__file__).parent.parent
MEAN_OF_SEEDS = f"the same, {len(SEEDS)} seeds, mean ± standard deviation"
SHOWN = {  # the paper's five, then BLEU-4 with its penalty and CIDEr
    "bleu_1_no_brevity": "B-1",
    "bleu_2_no_brevity": "B-2",
    "bleu_3_no_brevity": "B-3",
    "bleu_4_no_brevity": "B-4",
    "meteor": "METEOR",
    "bleu_4": "B-4 with penalty",
    "cider": "CIDEr",
}
LOOKED_AT = ("10 %", "20 %", "50 %")  # of the photos, in `reviews.json`
CAPTIONS = {  # of `reviews.json`, by what they are
    "first": "the first caption alone (control)",
    "random": "the best of it and of nine random ones of other photos (control)",
    "keys": "the best of it and of those on the keys 1 to 9",
}
BLOCK = r"(<!-- table (\w+), by research/{}\.py -->\n).*?(<!-- end of table -->)"


def heads(*titles: str) -> list[str]:
    """The first two lines of a table, whose columns but the first are of numbers."""
    return [f"| {' | '.join(titles)} |", "| --- |" + " ---: |" * (len(titles) - 1)]


def with_interval(figure: Mapping[str, float], decimals: int = 2) -> str:
    """A mean with its 95 % interval, for a cell."""
    mean, low, high = (f"{figure[name]:.{decimals}f}".replace("-", "−") for name in ("mean", "low", "high"))
    return f"{mean} [{low}, {high}]"


def models(folder: Path = results.RESULTS) -> str:
    """The README's list of models: what each is for, its size, and CIDEr on both tests; narrow enough for a phone."""
    lines = heads("model", "for", "COCO", "Flickr8k")
    lines[1] = "| --- | --- | ---: | ---: |"
    for name in ("everyday-soft", "everyday-hard", "flickr8k-soft", "flickr8k-hard"):
        purpose = read_object(SHIPPED / name / "config.json", "training")["training"]["purpose"]
        cells = [f"`{name}`", f"{purpose}, {shipped_size(name) / 1e6:.1f} MB"]
        own = f"{name}-flickr8k-test" if name.startswith("everyday") else f"{name}-test"
        for kept in (f"{name}-coco-test", own):
            cells.append(mean([results.read(kept, folder)["cider"]]) if kept in results.names(folder) else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


README_ROWS = {  # rows of the README's table of the reproduction: the titles of soft and hard attention in RECIPES
    "its recipe here": ("its recipe here", "its recipe here"),
    "our recipe (hard by argmax)": ("our recipe", "our recipe, by argmax"),
    "the shipped model": ("the shipped model, in 4 bits a weight", "the shipped model, in 4 bits a weight"),
    "our recipe with uniform α": ("our recipe with uniform α", "our recipe with uniform α"),
}


def paper(folder: Path = results.RESULTS) -> str:
    """The README's table of the reproduction; hard attention reads the mean of all locations if not by argmax."""
    lines = heads("Flickr8k test: BLEU-4 without brevity penalty, METEOR", "soft attention", "hard attention")
    lines.append(f"| Xu et al. (2015) | {' | '.join(f'{each[3]}, {each[4]}' for each in reproduction.XU.values())} |")
    for title, in_tables in README_ROWS.items():
        of = [reproduction.kept(name, kind, folder) for kind, name in zip(reproduction.KINDS, in_tables, strict=True)]
        cells = [", ".join(mean([row[key] for row in rows]) for key in ("bleu_4_no_brevity", "meteor")) for rows in of]
        lines.append(f"| {title}{counted(of[0])} | {' | '.join(cells).replace('–, –', '–')} |")
    return "\n".join(lines) + "\n"


def scores(folder: Path = results.RESULTS) -> str:
    """The paper's rows, those of its recipe and of ours, and uniform α."""
    lines = heads("Flickr8k test", *SHOWN.values())
    for kind, figures in reproduction.XU.items():
        lines.append(f"| **{kind} attention**: Xu et al. (2015) | {' | '.join(figures)} | – | – |")
        for title in reproduction.RECIPES:
            if rows := reproduction.kept(title, kind, folder):
                cells = " | ".join(mean([row[metric] for row in rows]) for metric in SHOWN)
                lines.append(f"| {title}{counted(rows)} | {cells} |")
    return "\n".join(lines) + "\n"


def conventions(folder: Path = results.RESULTS) -> str:
    """The same rows by the three conventions of what is compared: BLEU-1 to BLEU-4 without penalty, METEOR."""
    titles = ("split file's tokens", "raw references", "raw references, captions with capital and full stop")
    lines = heads("Flickr8k test: B-1 / B-2 / B-3 / B-4, METEOR", *titles)
    for kind, figures in reproduction.XU.items():
        paper = f"{' / '.join(figures[:4])}, {figures[4]}"
        lines.append(f"| **{kind} attention**: Xu et al. (2015), convention unknown | {paper} | | |")
        for title in reproduction.RECIPES:
            if rows := reproduction.kept(title, kind, folder):
                scored = [rows, *([row[convention] for row in rows] for convention in reproduction.CONVENTIONS)]
                lines.append(f"| {title}{counted(rows)} | {' | '.join(map(paper_s_five, scored))} |")
    return "\n".join(lines) + "\n"


def paper_s_five(rows: Sequence[Mapping[str, Any]]) -> str:
    """The means of the paper's five metrics, for a cell; a dash where a score is missing."""
    bleu = " / ".join(mean([row.get(f"bleu_{n}_no_brevity") for row in rows]).partition(" ")[0] for n in range(1, 5))
    return f"{bleu}, {mean([row.get('meteor') for row in rows]).partition(' ')[0]}"


def counted(seeds: Sequence[Any]) -> str:
    """How many seeds a row has, if several."""
    return f", {len(seeds)} seeds" if len(seeds) > 1 else ""


def everyday(folder: Path = results.RESULTS) -> str:
    """The everyday models on the test splits of both data sets, and the soft model of Flickr8k alone beside them."""
    lines = heads("test of", *SHOWN.values())
    for data, name, of_other in (("coco", "COCO", "-coco"), ("flickr8k", "Flickr8k", "")):
        for kind in ("soft", "hard"):
            for how, suffix in (("without reranker and class words", "-alone"), ("as it ships", "")):
                title = f"{name}, `everyday-{kind}`, {how}"
                lines.append(row(title, [f"everyday-{kind}-{data}-test{suffix}"], folder))
                seeds = of_all_seeds(f"everyday-{kind}", f"{data}-test{suffix}", folder) if suffix else []
                if len(seeds) == len(SEEDS):  # otherwise, and as it ships, the seeds have different settings
                    lines.append(row(MEAN_OF_SEEDS, seeds, folder))
        lines.append(row(f"{name}, `flickr8k-soft`", [f"flickr8k-soft{of_other}-test"], folder))
    return "\n".join(lines) + "\n"


def of_all_seeds(model: str, ending: str, folder: Path) -> list[str]:
    """The evaluations of a shipped model's seeds that are kept; the seed that ships may be kept as the model's only."""
    names = {seed: f"{model}-{seed}-{ending}" for seed in SEEDS}
    missing = [seed for seed, name in names.items() if not results.kept([name], None, folder)]
    found = [name for seed, name in names.items() if seed not in missing]
    ships = read_object(SHIPPED / model / "config.json", "training")["training"]["seed"] if missing else None
    return [*found, f"{model}-{ending}"] if ships in missing else found


def ablation(name: str, folder: Path = results.ABLATION) -> str:
    """What replacing α and hiding locations costs each class of words, in nats, with 95 % intervals."""
    found = results.read(name, folder)
    words, hidden = found["at_word"], found["occlusion"]["annotations"]
    titles = (f"{kind} ({words[kind]['words']})" for kind in CLASSES)
    lines = heads(f"{found['model']}, {found['photos']} photos", *titles)
    rows = [("−log p by its own α", words, "log_loss")]
    rows += [(f"α replaced by {title.replace('alpha', 'α')}", words, control) for control, title in CONTROLS.items()]
    rows += [(f"hidden: {title.replace('alpha', 'α')}", hidden, variant) for variant, title in VARIANTS.items()]
    for title, classes, key in rows:
        lines.append(f"| {title} | {' | '.join(with_interval(classes[kind][key]) for kind in CLASSES)} |")
    return "\n".join(lines) + "\n"


ABLATIONS = ("flickr8k-soft", "flickr8k-hard", "everyday-soft", "everyday-hard")


def free_captions(folder: Path = results.ABLATION) -> str:
    """CIDEr of captions that models make with another map at every word, and its difference to their own captions'."""
    found = {name: results.read(name, folder)["captions_made"] for name in ABLATIONS}
    found = {name: made for name, made in found.items() if made is not None}
    titles = (f"{name}, {made['photos']} photos" for name, made in found.items())
    lines = heads("CIDEr of captions made with", *titles)
    lines.append(
        f"| the own α | {' | '.join('{:.1f}'.format(made['own']['cider']['score']) for made in found.values())} |"
    )
    for control in SEARCHED:
        cells = []
        for made in found.values():
            each = made[control]["cider"]
            cells.append("{score:.1f} ({difference:+.1f} [{low:+.1f}, {high:+.1f}])".format(**each).replace("-", "−"))
        lines.append(f"| {CONTROLS[control].replace('alpha', 'α')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def grayed(folder: Path = results.ABLATION) -> str:
    """What graying locations in the photo costs words, in nats, for the models of which it was measured."""
    lines = heads("grayed in the photo", *(title.replace("alpha", "α") for title in VARIANTS.values()))
    for name in ABLATIONS:
        found = results.read(name, folder)
        for kind, title in (("noun", "nouns"), ("all", "all words")):
            if kind in (classes := found["occlusion"]["gray"]):
                cells = " | ".join(with_interval(classes[kind][variant]) for variant in VARIANTS)
                lines.append(f"| {name}, {title} of {found['captions_by_way']['gray']} photos | {cells} |")
    return "\n".join(lines) + "\n"


CONTROLS_OF_EVIDENCE = {  # a row for each figure: its group and name
    **{f"in the right photo: {title}": ("maps", name, "share") for name, title in MAPS.items()},
    **{f"peak inside: {title}": ("maps", name, "peak") for name, title in MAPS.items()},
    **{
        f"{title}, minus {others}": ("maps", name, figure)
        for figure, others in (("minus_words", "other words' maps"), ("minus_nouns", "other nouns' maps"))
        for name, title in (("alpha", "alpha"), ("evidence", "evidence"))
    },
    **{f"nats, hidden: {title}": ("hidden", name) for name, title in (MAPS | HIDDEN).items()},
    **{f"rank correlation, shuffled: {part.replace('_', '-')}": ("shuffled", part) for part in PARTS},
}


def evidence(kind: str = "1 or more", folder: Path = results.EVIDENCE) -> str:
    """What the controls say of evidence in mosaics, with 95 % intervals, at nouns with so many nouns before them."""
    found = [results.read(name, folder) for name in results.names(folder)]
    titles = (f"{each['model']} ({each['mosaics']} of {each['split']})" for each in found)
    lines = heads(f"nouns with {kind} nouns before, in mosaics", *titles)
    for title, (group, *path) in CONTROLS_OF_EVIDENCE.items():
        cells = []
        for each in found:
            of = each[group].get(path[0], {}) if group == "maps" else each[group]
            figure = of.get(kind, {}).get(path[-1])
            cells.append("–" if figure is None else with_interval(figure))
        lines.append(f"| {title.replace('alpha', 'α')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def nouns(folder: Path = results.RESULTS) -> str:
    """The share of the nouns in captions that one of the people used too."""
    lines = heads("model and test", "nouns", "of them right, with the 95 % interval over photos")
    for name, found in read_object(folder / "nouns.json", "everyday-soft-coco-test").items():
        lines.append(f"| {name.removesuffix('-test')} | {found['nouns']:,} | {with_interval(found)} |")
    return "\n".join(lines) + "\n"


def hidden(folder: Path = results.HIDE) -> str:
    """How often a noun is gone from the caption when a fifth of the photo is hidden, by which fifth."""
    everything = read_object(folder / "figures.json", "everyday-soft-coco-test")
    columns = {
        f"{model}-{data}-test": f"`{model}`, {title}"
        for model in ("everyday-soft", "everyday-hard")
        for data, title in (("coco", "COCO"), ("flickr8k", "Flickr8k"))
    }
    lines = heads("hidden", *columns.values())
    sizes = [f"{everything[name]['photos']}, {everything[name]['nouns']}" for name in columns]
    lines.append(f"| photos, nouns | {' | '.join(sizes)} |")
    for place, title in PLACES.items():
        of_place = [everything[name]["places"].get(place) for name in columns]
        if all(of_place):
            lines.append(f"| {title} | {' | '.join(percent(each['gone']) for each in of_place if each)} |")
    lines.append("| *the noun's confidence above 0.7:* |" + " |" * len(columns))
    for place in ("evidence", "moved"):
        of_place = [everything[name]["sure_gone"][place] for name in columns]
        lines.append(f"| {PLACES[place]} | {' | '.join(map(percent, of_place))} |")
    return "\n".join(lines).replace("alpha", "α") + "\n"


def review_order(folder: Path = results.RESULTS) -> str:
    """The share of the wrong captions that is found after a share of the photos, in each order, in percent."""
    lines = heads("captions", "photos, wrong", "order", *(f"after {share}" for share in LOOKED_AT))
    lines.append("| any (control) | | at random | 10 | 20 | 50 |")
    for model, found in read_object(folder / "reviews.json", "everyday-soft").items():
        for title, of in found["order"].items():
            for order in of[LOOKED_AT[0]]:
                cells = " | ".join(percent(of[share][order]) for share in LOOKED_AT)
                lines.append(f"| `{model}`, {title} | {of['photos']}, {of['wrong']} | {order} | {cells} |")
    return "\n".join(lines) + "\n"


def review_keys(folder: Path = results.RESULTS) -> str:
    """How good the first caption is, and the best that one key away is, beside a person's."""
    everything = read_object(folder / "reviews.json", "everyday-soft")
    columns = [(f"`{model}`, {name}", of) for model, found in everything.items() for name, of in found["work"].items()]
    lines = heads("CIDEr; of 100 photos, with a person's CIDEr", *(title for title, _ in columns))
    for name, title in CAPTIONS.items():
        figures = [(of[name]["CIDEr"], of[name]["of 100, as a person"]) for _, of in columns]
        cells = ["; ".join(with_interval(figure, 1) for figure in of_column) for of_column in figures]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    lines.append(f"| a person's | {' | '.join(with_interval(of['CIDEr of people'], 1) for _, of in columns)} |")
    return "\n".join(lines) + "\n"


def teaching(folder: Path = results.RESULTS) -> str:
    """What corrected photos gain, by how they were chosen: at random, and the others beside it."""
    lines = heads("photos that are corrected", "draws", "chosen", "CIDEr of others", "gain", "beside random")
    for cell in read_object(folder / "teaching.json", "cells")["cells"]:
        ciders = "; ".join(f"{value:.1f}" for value in cell["CIDEr"])
        gains = " | ".join(with_interval(cell[name], 1) if name in cell else "" for name in ("gain", "beside random"))
        lines.append(f"| {cell['kind']}, {cell['size']} | {cell['draws']} | {cell['selection']} | {ciders} | {gains} |")
    return "\n".join(lines) + "\n"


def percent(figure: Mapping[str, float]) -> str:
    """A share with its 95 % interval, in percent, for a cell."""
    return with_interval({name: 100 * value for name, value in figure.items()}, 0)


TABLES: dict[str, Callable[[], str]] = {
    "models": models,
    "paper": paper,
    "scores": scores,
    "conventions": conventions,
    "everyday": everyday,
    "ablation_soft": partial(ablation, "flickr8k-soft-reference"),
    "ablation_hard": partial(ablation, "flickr8k-hard-reference"),
    "ablation_everyday": partial(ablation, "everyday-soft-reference"),
    "evidence": evidence,
    "nouns": nouns,
    "free_captions": free_captions,
    "grayed": grayed,
    "hidden": hidden,
    "review_order": review_order,
    "review_keys": review_keys,
    "teaching": teaching,
}


def row(title: str, names: Sequence[str], folder: Path = results.RESULTS) -> str:
    """The scores of one evaluation, or the mean of several."""
    found = [results.read(name, folder) for name in names]
    return f"| {title} | {' | '.join(mean([each[metric] for each in found]) for metric in SHOWN)} |"


def mean(values: Sequence[Any]) -> str:
    """The mean of values, with their standard deviation when there are several; a dash when one is missing."""
    given = [value for value in values if isinstance(value, float)]
    if not given or len(given) < len(values):
        return "–"
    shown = f"{statistics.fmean(given):.1f}"
    return shown if len(given) == 1 else f"{shown} ± {statistics.stdev(given):.1f}"


def with_tables(text: str, tables: Mapping[str, Callable[[], str]] = TABLES, script: str = "tables") -> str:
    """A document with the tables of a script made anew; raises `SatError` for a table that there is not."""

    def made(block: re.Match[str]) -> str:
        if block[2] not in tables:
            raise SatError(f"there is no table {block[2]!r}: choose one of {', '.join(tables)}")
        return f"{block[1]}{tables[block[2]]()}{block[3]}"

    return re.sub(BLOCK.format(script), made, text, flags=re.DOTALL)


def documents() -> list[Path]:
    """The documents that may have tables."""
    folders = (ROOT / "docs", ROOT / "research" / "notes")
    return [ROOT / "README.md", *(file for folder in folders for file in sorted(folder.rglob("*.md")))]


def stale() -> dict[Path, str]:
    """The documents and charts that are not those of the evaluations, with what they should be."""
    made = {document: with_tables(read_text(document)) for document in documents()}
    made |= {chart.FILE: chart.chart(), reproduction.FILE: reproduction.curves()}
    made[results.RESULTS / results.LIST] = results.listed()
    return {file: text for file, text in made.items() if not file.exists() or read_text(file) != text}


def write() -> None:
    """Write the tables of all documents anew."""
    for document, text in stale().items():
        write_text(document, text)
        print(f"wrote {document}")


@reporting
def main(given: Sequence[str] | None = None) -> None:
    """Print a table, write all, or check them."""
    parser = new_parser(__doc__)
    parser.add_argument("table", nargs="?", choices=list(TABLES), help="table to print")
    parser.add_argument(
        "--check", action="store_true", help="write nothing, and fail where a document has other tables"
    )
    options = parser.parse_args(given)
    if options.table is not None:
        print(TABLES[options.table](), end="")
    elif not options.check:
        write()
    elif old := ", ".join(document.name for document in stale()):
        sys.exit(f"tables: {old} have other tables than the evaluations give: python research/tables.py")


if __name__ == "__main__":
    main()
