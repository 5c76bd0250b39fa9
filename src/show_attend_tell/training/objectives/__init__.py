"""What training minimizes: an objective for each kind of attention, in a file of its own, with its equation."""
