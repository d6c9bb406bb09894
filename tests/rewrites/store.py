"""A small store on loopback that answers after a round trip: `store.py MILLISECONDS` prints its port."""

from __future__ import annotations

import http.server
import sys
import time

DELAY = float(sys.argv[1]) / 1e3


class Store(http.server.ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        time.sleep(DELAY)  # the round trip to a store that is far away
        body = self.path.strip("/").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


server = Store(("127.0.0.1", 0), Answer)
print(server.server_address[1], flush=True)
server.serve_forever()
