"""Captions and features of any number of photos: on one machine, or on many with Ray Data."""
