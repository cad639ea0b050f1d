"""A proxy before an HTTP server that throttles, fails and cuts connections, as real stores do on bad days."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Trouble = Literal["503", "429", "cut", "403", "301"]

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class TroubledProxy:
    """Passes requests on, but for those for which ``trouble`` names one. It is asked with the number of the request,
    its method and its path."""

    def __init__(self, server: str, trouble: Callable[[int, str, str], Trouble | None]) -> None:
        target = urlsplit(server)
        lock = threading.Lock()
        self.requests: list[tuple[str, str, Trouble | None]] = []
        requests = self.requests

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with lock:
                    found = trouble(len(requests), self.command, self.path)
                    requests.append((self.command, self.path, found))
                if found in ("503", "429", "403", "301"):
                    self.send_response(int(found))
                    self.send_header("Content-Length", str(len(_SLOW_DOWN)))
                    self.end_headers()
                    if self.command != "HEAD":
                        self.wfile.write(_SLOW_DOWN)
                    return
                upstream = http.client.HTTPConnection(target.hostname or "", target.port)
                upstream.request(self.command, self.path, body or None, dict(self.headers))
                answer = upstream.getresponse()
                data = answer.read()
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in ("transfer-encoding", "content-length", "connection", "date", "server"):
                        self.send_header(name, value)
                length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(data))
                self.send_header("Content-Length", length or "0")
                self.end_headers()
                if found == "cut":
                    self.wfile.write(data[: len(data) // 2])
                    self.close_connection = True
                else:
                    self.wfile.write(data)
                upstream.close()

            do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_any  # noqa: N815

            def log_message(self, format: str, *arguments: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
