"""The server and its web app: `make_app` answers over HTTP what a `Captioner` answers in Python.

    a request → guard → reading (bytes and pixels counted) → batching (one thread owns the models) → an answer

`page` holds the web app; it shows captions by the package's viewer.
"""

from show_attend_tell.errors import SatError

try:
    from show_attend_tell.server.app import make_app
    from show_attend_tell.server.limits import Limits
except ModuleNotFoundError as error:
    raise SatError(f"the server needs {error.name}: pip install 'show-attend-tell[serve]'") from None

__all__ = ["Limits", "make_app"]
