"""What the tests of the web page need: Node with its packages, and Chromium."""

import http.server
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from documents import ROOT

WEB = ROOT / "web"
NODE = shutil.which("node")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

needs_node = pytest.mark.skipif(
    NODE is None or not (WEB / "node_modules" / "vite").is_dir(),
    reason="the page's packages are not installed: run make web, which needs Node",
)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to drive here")


def node(*arguments: str | Path, cwd: Path = WEB) -> str:
    """Run Node; gives what it prints."""
    assert NODE is not None
    done = subprocess.run([NODE, *arguments], cwd=cwd, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Static:
    """A file server: its address, what was asked for, and what it does wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked = []  # "GET /index.html"
        self.damaged = ""  # the start of the names of files whose last byte is changed
        self.away = False  # whether it hangs up on everybody
        self.url = ""


@contextmanager
def static(folder: Path) -> Iterator[Static]:
    """Serve a folder from this machine without any special header, under a path of its own."""
    here = Static(folder)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def translate_path(self, path: str) -> str:
            return super().translate_path(path.removeprefix("/sub"))

        def do_GET(self) -> None:
            if here.away:
                self.close_connection = True
            elif here.damaged and self.path.rsplit("/", 1)[-1].startswith(here.damaged):
                content = bytearray(Path(self.translate_path(self.path)).read_bytes())
                content[-1] ^= 1
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            else:
                super().do_GET()

        def log_message(self, form: str, *arguments: Any) -> None:
            here.asked.append(" ".join(str(self.requestline).split()[:2]))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        here.url = f"http://127.0.0.1:{server.server_port}/sub/"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield here
        server.shutdown()
        thread.join()
