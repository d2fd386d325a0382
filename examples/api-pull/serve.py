"""Plays the API, in the background, on a free port: api.url says where it is, and api.pid whom to kill."""

import http.server
import os
from pathlib import Path


class Rates(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        _, day, symbol = self.path.split("/")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f'{{"day": "{day}", "symbol": "{symbol}", "rate": 1.0862}}\n'.encode())

    def log_message(self, *_): ...


server = http.server.HTTPServer(("127.0.0.1", 0), Rates)
Path("api.url").write_text(f"http://127.0.0.1:{server.server_port}")
if child := os.fork():
    Path("api.pid").write_text(str(child))
else:
    for stream in (0, 1, 2):
        os.close(stream)
    server.serve_forever()
