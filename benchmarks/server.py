"""What the server gains by searching photos together: `python benchmarks/server.py`.

Prints, for several beams, how many times as long eight photos take one by one as together, and how long their encoding
takes. The server searches together where `photos_together` allows eight photos and more; the lines say which these are.
"""

from pathlib import Path

import torch
from decoder import ratio

from show_attend_tell.captioner import Captioner
from show_attend_tell.data.photos import open_photo
from show_attend_tell.model.search import photos_together
from show_attend_tell.server.queue import TOGETHER

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.jpg"))


def main() -> None:
    captioner = Captioner.from_pretrained("flickr8k-soft")
    preprocessing = captioner.encoder.preprocessing
    photos = [preprocessing(open_photo(EXAMPLES[number % len(EXAMPLES)])) for number in range(TOGETHER)]
    pixels = torch.stack(photos).to(captioner.device)
    print(f"PyTorch {torch.__version__}, {captioner.device}, {torch.get_num_threads()} threads")

    def encode_alone() -> torch.Tensor:
        return torch.cat([captioner.encoder.annotate(photo[None]) for photo in pixels])

    ratio("encoding, one by one / together", lambda: captioner.encoder.annotate(pixels), encode_alone, rounds=3)
    annotations = encode_alone()
    for beam in (1, 3, 5, 10, 20, 50, 100):
        decoding = captioner.checkpoint.decoding.but(beam=beam)

        def search(together: int, decoding: object = decoding) -> None:
            for start in range(0, TOGETHER, together):
                seeds = list(range(together))
                captioner.search(annotations[start : start + together], decoding, seeds=seeds)  # type: ignore[arg-type]

        way = "together" if photos_together(beam, captioner.device) >= TOGETHER else "one by one"
        ratio(f"beam {beam} (here {way}), one by one / together", lambda: search(TOGETHER), lambda: search(1), rounds=3)


if __name__ == "__main__":
    main()
