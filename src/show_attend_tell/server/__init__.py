"""The server and its web app: `make_app` answers over HTTP what a `Captioner` answers in Python.

    a request → guard (who may ask) → reading (bytes and pixels counted) → queue (one thread has the models) → an answer

`service` leads a request through these; `app` holds the paths; `page` holds the web app and the API's manual.
"""

from importlib import import_module

from show_attend_tell.errors import MissingPackage
from show_attend_tell.messages import install_command

try:
    import_module("fastapi_offline")  # whose files of Swagger UI the API's manual is shown with
    from show_attend_tell.server.app import make_app
    from show_attend_tell.server.guard import Server
    from show_attend_tell.server.limits import Limits
except ModuleNotFoundError as error:
    raise MissingPackage(f"the server needs {error.name}", remedy=install_command("serve")) from None

__all__ = ["Limits", "Server", "make_app"]
