"""The constants of class words, in one table with the figure of val that chose each.

The figures are CIDEr of `everyday-soft` with beam 10 on val: COCO (200 photos), then Flickr8k. No trial is kept for
those without a figure; `research/class_word_controls.py --constants` varies them. `research/notes/class-words.md` has
more.
"""

# Which words a class has. LEVELS above it in WordNet are counted.
LEVELS = 2

# p of each class: the softmax of the classifier's scores times SHARPNESS, without classes that are not PROBABLE.
SHARPNESS = 2.0
PROBABLE = 3e-3

# The evidence for a word, in nats: log((p + EPSILON) / (p̄ + EPSILON)), or 0 where that is negative.
EPSILON = 1e-6

# λ, which multiplies the evidence: COMMON for a common word, and up to p = POSSIBLE for a rare one. From there it grows
# to RARE at p = CERTAIN. Before, it was a step at p = 0.5 to 1.2: 0.3 to 1.4 points more on COCO, and 63.6 as now on
# Flickr8k, but surely seen things were named less often (10 of twenty ImageNet photos, now 12).
COMMON = 0.3
RARE = 1.7
POSSIBLE = 0.3
CERTAIN = 0.8
PHOTOS_OF_RARE = 20  # training photos of a word that is half a rare one

# A word stays common if people use it for a smaller share than USED of the photos that surely have it (p ≥ SURE).
USED = 0.4
SURE = 0.5  # also the p from which on a name is said: people's captions support 15 of 20 on val

# The share of the raise that is paid at the word; the rest is taken away at the end. 89.3 and 66.7 (400 photos), and
# with all of it at the word 88.2 and 66.2.
AT_THE_WORD = 0.75

# λ of a name whose class no training photo shows. It is half as large at p̄ = UNUSUAL: without that, names of common
# classes are said where they do not fit ("a soccer ball in a red uniform is running").
NAME = 1.5
UNUSUAL = 0.0025

# The confidence: a probability of UNSEEN counts as none. The log odds of a name are NAME_SLOPE times those of p, and
# NAME_OFFSET. They are fitted to 75 photos of val and training whose most probable class has a name, p ≥ 0.5: people's
# captions have the class, or a word at most four levels above it, for 79 % (`class_word_controls.py --names`).
UNSEEN = 1e-3
NAME_SLOPE = 0.4  # standard error 0.4
NAME_OFFSET = 0.85  # standard error 0.5
