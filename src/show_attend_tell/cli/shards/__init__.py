"""What `sat caption` and `sat encode` do with any number of photos, when they get ``--output``."""
