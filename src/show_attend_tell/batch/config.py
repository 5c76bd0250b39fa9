"""`BatchConfig`: how a batch of any number of photos is worked off."""

from typing import Literal

from show_attend_tell.settings import Count, settings


@settings
class BatchConfig:
    """Who makes the rows of photos, and how they are read and written. Raises `InvalidValue` for a wrong value."""

    engine: Literal["auto", "ray", "local"] = "auto"  # Ray Data, or processes of this machine; auto: Ray if installed
    workers: Count = 1  # workers, each with the model
    rows: Count = 1000  # rows that are written together, as a part of the output
    column: str | None = None  # column of Parquet files with the photos or their paths; none: a usual name
    recursive: bool = False  # photos in subfolders too
