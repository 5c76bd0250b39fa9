"""What `sat caption` and `sat features` do with any number of photos, when they get ``--output``."""
