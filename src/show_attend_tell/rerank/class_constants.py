"""The constants of class words, in one table with the figure on val that chose each.

A figure is how much CIDEr another value brings: `everyday-soft`, beam 10, all 200 photos of COCO val, with its paired
95 % interval over photos. What ships has 90.27. `research/class_word_controls.py --constants` prints them. An interval
that holds zero says that val cannot tell the two values apart, which is so for all but CERTAIN = 0.6.
"""

# Which words a class has: those at most LEVELS above it in WordNet.
LEVELS = 2  # 1: +0.1 [−1.2, 1.3]; 3: −0.3 [−1.3, 0.7]

# p of each class: the softmax of the classifier's scores times SHARPNESS, without classes that are not PROBABLE.
SHARPNESS = 2.0  # no other value was tried: class words would have to be fitted anew
PROBABLE = 3e-3  # 0.001: 0.0 [−0.3, 0.4]; 0.01: −0.5 [−2.1, 0.8]

# The evidence for a word, in nats: log((p + EPSILON) / (p̄ + EPSILON)), or 0 where that is negative.
EPSILON = 1e-6  # keeps the logarithm finite: the evidence is 14 nats at most

# λ, which multiplies the evidence: COMMON for a common word, and up to p = POSSIBLE for a rare one. From there it grows
# to RARE at p = CERTAIN. Before, it was a step at p = 0.5 to 1.2: 0.3 to 1.4 points more on COCO, and 63.6 as now on
# Flickr8k, but surely seen things were named less often (10 of twenty ImageNet photos, now 12).
COMMON = 0.3  # 0.15: −0.8 [−2.9, 1.3]; 0.6: −1.0 [−4.7, 2.1]
RARE = 1.7  # 1.2: −0.2 [−0.9, 0.4]; 2.5: −0.7 [−1.8, 0.3]
POSSIBLE = 0.3  # 0.1: −0.3 [−1.7, 1.0]; 0.5: −0.2 [−0.5, 0.0]
CERTAIN = 0.8  # 0.6: −0.6 [−1.4, −0.1]; 0.95: −0.1 [−0.9, 0.6]
PHOTOS_OF_RARE = 20  # training photos of a word that is half a rare one. 7: −0.3 [−1.0, 0.4]; 60: −0.4 [−1.7, 1.1]

# A word stays common if people use it for a smaller share than USED of the photos that surely have it (p ≥ SURE).
USED = 0.4  # no other value was tried: class words would have to be fitted anew
# SURE is also the p from which on a name is said: people's captions support 15 of 20 on val.
SURE = 0.5  # for names: 0.4: no caption differs; 0.7: +0.2 [−1.0, 1.6], by 4 captions

# The share of the raise that is paid at the word; the rest is taken away at the end. With all of it at the word, 88.2
# for 89.3 on COCO, and 66.2 for 66.7 on 400 photos of Flickr8k val, before the rules for noun places.
AT_THE_WORD = 0.75  # 0.5: −1.1 [−3.2, 0.8]; 1: −1.6 [−3.7, 0.3]

# λ of a name whose class no training photo shows. It is half as large at p̄ = UNUSUAL: without that, names of common
# classes are said where they do not fit ("a soccer ball in a red uniform is running").
NAME = 1.5  # 1.0: +0.3 [0.0, 0.8]; 2.5: −0.4 [−1.2, 0.3]
UNUSUAL = 0.0025  # 0.001: +0.3 [0.0, 0.8]; 0.006: 0.0 [−0.2, 0.2]

# The confidence: a probability of UNSEEN counts as none. The log odds of a name are NAME_SLOPE times those of p, and
# NAME_OFFSET. They are fitted to 75 photos of val and training whose most probable class has a name, p ≥ 0.5: people's
# captions have the class, or a word at most four levels above it, for 79 % (`class_word_controls.py --names`).
UNSEEN = 1e-3  # keeps logarithms finite
NAME_SLOPE = 0.4  # standard error 0.4
NAME_OFFSET = 0.85  # standard error 0.5
