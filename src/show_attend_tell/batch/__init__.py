"""Captions and features of any number of photos: on one machine, or on many with Ray Data."""

from show_attend_tell.batch.work import CaptionBatch, EncodeBatch

__all__ = ["CaptionBatch", "EncodeBatch"]
