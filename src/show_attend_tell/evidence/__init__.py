"""What captions and models are worth: systems compared, hard attention examined, the gaze tested, captions ranked.

Everything here looks at models from outside, and only the command line and the report need it.
"""
