"""The HTTP side: HTTP/1.1 that keeps connections, a thread for each; and the process, from its first line to its end."""

import argparse
import http.server
import json
import os
import signal
import socket
import ssl
import struct
import sys
import threading

from . import batch, control
from .dispatcher import Dispatcher, Request
from .document import Document
from .world import World


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address, world, document, tls=None):
        super().__init__(address, Handler)
        self.world = world
        self.document = document
        self.dispatcher = Dispatcher(world, document)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        host, port = self.server_address[:2]
        self.url = f"http{'s' if tls else ''}://{host}:{port}"

    def handle_error(self, request, client_address):
        # A client that goes away in the middle is no news.
        if not isinstance(sys.exc_info()[1], (ConnectionError, TimeoutError, ssl.SSLError)):
            super().handle_error(request, client_address)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "gce_server"
    disable_nagle_algorithm = True
    # One write for each answer.
    wbufsize = 64 * 1024

    def log_message(self, *_arguments):
        """The log is at /_control/requests."""

    def do_request(self):
        size = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        if "chunked" in headers.get("transfer-encoding", ""):
            self.close_connection = True
            self.send_error(411)
            return
        request = Request(self.command, self.path, headers, self.rfile.read(size))
        if request.path.startswith("/_control"):
            answer = control.answer(self.server, request)
        elif request.path.rstrip("/") in ("/batch", "/batch/compute/v1"):
            answer = batch.answer(self.server.dispatcher, request)
        else:
            answer = self.server.dispatcher.answer(request)
        self._write(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_request

    def _write(self, answer):
        if answer.cut == "before":
            self._cut()
            return
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if answer.cut:
            self.wfile.write(answer.body[: len(answer.body) // 2 if answer.cut == "body" else 0])
            self.wfile.flush()
            self._cut()
            return
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    def _cut(self):
        """Ends the connection with a reset, as a proxy that dies does."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


def main(arguments=None):
    """Serves until standard input closes. Exit code 1 when the server itself broke the document."""
    parser = argparse.ArgumentParser(prog="gce_server", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--project", action="append", default=[], help="a project that exists; repeatable (default: p)")
    parser.add_argument("--manual-clock", action="store_true", help="time stands still until it is advanced")
    parser.add_argument("--document", help="a discovery document other than the installed one")
    parser.add_argument("--certificate", help="PEM file; serves TLS")
    parser.add_argument("--key", help="PEM file of the certificate's key")
    options = parser.parse_args(arguments)
    tls = None
    if options.certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(options.certificate, options.key)
    world = World(options.project or ["p"], options.manual_clock)
    server = Server((options.host, options.port), world, Document(options.document), tls)
    ended = threading.Event()
    # Before anybody can know of the server: who reads the first line may end it at once.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    threading.Thread(target=_until_input_closes, args=(ended,), daemon=True).start()
    first = {"url": server.url, "address": server.url.rpartition("/")[2], "revision": server.document.revision}
    print(json.dumps(first), flush=True)
    ended.wait()
    server.shutdown()
    with world.changed:
        for violation in world.violations:
            print(f"gce_server: violated: {violation}", file=sys.stderr, flush=True)
        return 1 if world.violations else 0


def _until_input_closes(ended):
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    ended.set()
