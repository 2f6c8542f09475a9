"""Servers on loopback, started by tests: HTTP that counts and misbehaves on demand, and S3 by moto."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import Counter
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Files(ThreadingHTTPServer):
    """Serves a folder. `bodies` counts what was sent whole, by path, `parts` the bytes of what was sent by range; `faults`
    has a function by path, called before a GET, `head_fault` is one called before every HEAD."""

    daemon_threads = True

    def __init__(self, root):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.bodies = Counter()
        self.asked = Counter()
        self.parts = Counter()
        self.ranges = True
        self.faults = {}
        self.head_fault = None
        self.lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def shards(self):
        """How often each shard was sent."""
        return {path: number for path, number in self.bodies.items() if "/shards/" in path}

    def handle_error(self, request, client_address):
        """Clients may leave; that is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def _file(self):
        path = (self.server.root / self.path.lstrip("/")).resolve()
        return path if path.is_file() and path.is_relative_to(self.server.root.resolve()) else None

    def _answer(self, status, body=b"", **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        if self.server.head_fault is not None and self.server.head_fault(self):
            return
        file = self._file()
        if file is None:
            self._answer(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(file.stat().st_size))
        self.send_header("ETag", etag_of(file))
        self.end_headers()

    def do_GET(self):
        with self.server.lock:
            self.server.asked[self.path] += 1
        fault = self.server.faults.get(self.path)
        if fault is not None and fault(self):
            return
        file = self._file()
        if file is None:
            self._answer(404)
            return
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if wanted and self.server.ranges:
            first, last = map(int, wanted.groups())
            with file.open("rb") as opened:
                opened.seek(first)
                part = opened.read(last + 1 - first)
            self._answer(206, part, ETag=etag_of(file), Content_Range=f"bytes {first}-{last}/{file.stat().st_size}")
            with self.server.lock:
                self.server.parts[self.path] += len(part)
            return
        self._answer(200, file.read_bytes(), ETag=etag_of(file))
        with self.server.lock:
            self.server.bodies[self.path] += 1


def etag_of(file):
    """Another one for other bytes."""
    facts = file.stat()
    return _etag(file, facts.st_size, facts.st_mtime_ns)


@lru_cache
def _etag(file, _size, _changed):
    return f'"{hashlib.md5(file.read_bytes()).hexdigest()}"'


def busy(times, status=503):
    """Answers so so often, then as it should."""
    left = [times]

    def fault(handler):
        if left[0] == 0:
            return False
        left[0] -= 1
        handler._answer(status, b"busy")
        return True

    return fault


def cut(times):
    """Promises the whole file and sends half of it, so often."""
    left = [times]

    def fault(handler):
        if left[0] == 0:
            return False
        left[0] -= 1
        data = handler._file().read_bytes()
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[: len(data) // 2])
        handler.close_connection = True
        return True

    return fault


def silent(handler):
    """Takes the question and never answers."""
    time.sleep(30)
    return True


@contextmanager
def http(root):
    server = Files(root)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def s3(bucket, root, names):
    """S3 by moto, with the folders `names` of `root` at data/. Yields the options for fsspec and a function that puts."""
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    client = boto3.client(
        "s3", endpoint_url=endpoint, aws_access_key_id="a", aws_secret_access_key="b", region_name="us-east-1"
    )

    def put(key, data):
        client.put_object(Bucket=bucket, Key=key, Body=data)

    try:
        client.create_bucket(Bucket=bucket)
        for name in names:
            for file in (root / name).rglob("*"):
                if file.is_file():
                    put(f"data/{file.relative_to(root).as_posix()}", file.read_bytes())
        yield {"key": "a", "secret": "b", "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}, put
    finally:
        client.close()
        server.stop()
