"""Photos in any number: where they lie, how they are dealt into shards, and how shards of output are made of them.

A *shard* is what one worker does at a time and writes as one file. `sources` finds the photos and deals them, `reading`
reads those of one shard, `writing` writes its file, and `engine` lets workers do all shards.
"""
