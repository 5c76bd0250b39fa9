"""From a decoder to words: beam search, greedy search (a beam of one) and sampling, in NumPy.

`session` is all that a search knows of a decoder, `config` how captions are made, `filters` what is added to log p of
words, `beam` and `sampling` the two searches, and `hypotheses` what both give, and how captions are ordered.
"""
