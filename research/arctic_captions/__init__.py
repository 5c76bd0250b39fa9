"""Models of the authors' program "arctic-captions" (Theano, 2015), read as models of ours (`import_arctic.py`).

- `conversion` turns its options, parameters and dictionary into a decoder and a vocabulary;
- `archive` reads the parameters from the .npz file, without pickle;
- `pickles` reads options and dictionary, plain values in pickle files, and executes nothing.
"""
