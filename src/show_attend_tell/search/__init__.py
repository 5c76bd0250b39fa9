"""From a decoder to words: beam search, and greedy search, which is a beam of one, in NumPy.

`session` is all that a search knows of a decoder, `config` how captions are made, `filters` what is added to log p of
words, `beam` the search, and `hypotheses` what it gives, and how captions are ordered.
"""
