"""As much of two object stores, S3 and Google's, as a reader needs: the size of an object, and ranges of it."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAME = "r.parquet"


class Bucket(BaseHTTPRequestHandler):
    contents: bytes

    def do_HEAD(self) -> None:
        self.answer(head=True)

    def do_GET(self) -> None:
        self.answer(head=False)

    def answer(self, head: bool) -> None:
        path, _, question = self.path.partition("?")
        google = path.startswith("/storage/v1/b/bucket/o")
        body, code, end = b"", 404, len(self.contents)
        if google and not path.endswith("/o") and path.endswith(NAME) and "alt=media" not in question:
            facts = {"kind": "storage#object", "name": NAME, "bucket": "bucket", "size": str(end), "generation": "1"}
            body, code = json.dumps(facts).encode(), 200
        elif google and path.endswith("/o"):
            body, code = json.dumps({"kind": "storage#objects", "items": []}).encode(), 200
        elif path.endswith(f"/{NAME}"):
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            begin, end = int(first), min(int(last or end) + 1, end)
            body, code = self.contents[begin:end], 206 if self.headers.get("Range") else 200
            self.send_response(code)
            self.send_header("Content-Range", f"bytes {begin}-{end - 1}/{len(self.contents)}")
            return self.send(body, head)
        self.send_response(code)
        return self.send(body, head)

    def send(self, body: bytes, head: bool) -> None:
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


if __name__ == "__main__":
    Bucket.contents = Path(sys.argv[1]).read_bytes()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    print(server.server_port, flush=True)
    server.serve_forever()
