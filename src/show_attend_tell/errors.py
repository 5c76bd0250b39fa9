"""The one exception that users are meant to see."""


class SatError(Exception):
    """A mistake that the user can mend; the message names the offending value and the remedy."""
