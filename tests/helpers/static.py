"""The web page, built once, and a plain file server for it that can also fail."""

import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
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


def compiled(modules: Sequence[str], folder: Path) -> Path:
    """A script for Node that exports what modules of web/src export."""
    entry, script = folder / "entry.ts", folder / "entry.mjs"
    entry.write_text("\n".join(f'export * from "{WEB / "src" / module}";' for module in modules), encoding="utf-8")
    options = {"entryPoints": [str(entry)], "outfile": str(script), "bundle": True, "format": "esm"}
    program = f'import {{ buildSync }} from "esbuild"; buildSync({json.dumps(options)});'
    node("--input-type=module", "--eval", program)
    return script


def build(folder: Path, *models: str) -> None:
    """Build the page with models, as `make web` does."""
    node("node_modules/vite/bin/vite.js", "build", "--outDir", folder, "--emptyOutDir", "--logLevel", "warn")
    command = [sys.executable, str(WEB / "models.py"), str(folder / "models"), *models]
    subprocess.run(command, check=True, capture_output=True, timeout=300)


class Static:
    """A file server: its address, what was asked for, and what it does wrong."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []  # "GET /index.html"
        self.damaged = ""  # the start of the names of files whose last byte is changed
        self.missing = ""  # the end of the names of files that it does not have
        self.away = False  # whether it hangs up on everybody
        self.url = ""


@contextmanager
def static(folder: Path) -> Iterator[Static]:
    """Serve a folder from this machine without any special header, under a path of its own."""
    here = Static(folder)

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(folder))

        def do_GET(self) -> None:
            self.path = self.path.removeprefix("/sub")
            if here.away:
                self.close_connection = True
            elif here.missing and self.path.endswith(here.missing):
                self.send_error(404)
            elif here.damaged and self.path.rsplit("/", 1)[-1].startswith(here.damaged):
                content = bytearray((folder / self.path.lstrip("/")).read_bytes())
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
