"""A server that speaks the part of Google Cloud Storage's XML API that object_store's client uses, for tests.

The emulators that can be installed speak the JSON API: none lists, replaces on a condition, or takes parts by the XML
API. What requests and answers look like is from cloud.google.com/storage/docs/xml-api. Objects live in memory. Run as a
program, with a port, a token and a bucket, it serves until it is ended.
"""

from __future__ import annotations

import hashlib
import itertools
import sys
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_DEFAULT_PAGE = 1000


@dataclass(frozen=True)
class StoredObject:
    data: bytes
    generation: int
    e_tag: str
    written: float


@dataclass
class Buckets:
    """All objects, by bucket and key. Whoever reads and then writes holds the lock."""

    token: str
    objects: dict[str, dict[str, StoredObject]]
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    generations: itertools.count[int] = field(default_factory=lambda: itertools.count(time.time_ns() // 1000))

    def write(self, bucket: str, key: str, data: bytes) -> StoredObject:
        e_tag = f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
        stored = StoredObject(data, next(self.generations), e_tag, time.time())
        self.objects[bucket][key] = stored
        return stored


class RefusedError(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    buckets: ClassVar[Buckets]

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        bucket, _, key = parts.path.removeprefix("/").partition("/")
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        try:
            self._authorize()
            if bucket not in self.buckets.objects:
                raise RefusedError(404, "NoSuchBucket")
            with self.buckets.lock:
                self._act(bucket, unquote(key), query, body)
        except RefusedError as refused:
            self._send(refused.status, _xml("Error", Code=refused.code, Message="refused"))

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None: ...

    def _authorize(self) -> None:
        given = self.headers.get("Authorization")
        if given is None:
            raise RefusedError(403, "AccessDenied")
        if given != f"Bearer {self.buckets.token}":
            raise RefusedError(401, "AuthenticationRequired")

    def _act(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        objects = self.buckets.objects[bucket]
        if self.command == "GET" and not key:
            self._send(200, _listing(bucket, objects, query))
        elif "uploads" in query or "uploadId" in query:
            self._upload(bucket, key, query, body)
        elif self.command in ("GET", "HEAD"):
            self._read(_found(objects, key))
        elif self.command == "DELETE":
            _found(objects, key)
            del objects[key]
            self._send(204)
        else:
            self._check_generation(objects.get(key))
            source = self.headers.get("x-goog-copy-source")
            if source is not None:
                from_bucket, _, from_key = unquote(source).removeprefix("/").partition("/")
                body = _found(self.buckets.objects[from_bucket], from_key).data
            stored = self.buckets.write(bucket, key, body)
            answer = _xml("CopyObjectResult", ETag=stored.e_tag) if source is not None else b""
            self._send(200, answer, stored)

    def _check_generation(self, found: StoredObject | None) -> None:
        expected = self.headers.get("x-goog-if-generation-match")
        if expected is not None and int(expected) != (found.generation if found else 0):
            raise RefusedError(412, "PreconditionFailed")

    def _read(self, found: StoredObject) -> None:
        size, asked = len(found.data), self.headers.get("Range")
        if asked is None:
            self._send(200, found.data, found)
            return
        first, _, last = asked.removeprefix("bytes=").partition("-")
        start = int(first) if first else max(size - int(last), 0)
        end = min(int(last) + 1, size) if first and last else size
        if start >= size:
            raise RefusedError(416, "InvalidRange")
        self._send(206, found.data[start:end], found, {"Content-Range": f"bytes {start}-{end - 1}/{size}"})

    def _upload(self, bucket: str, key: str, query: dict[str, str], body: bytes) -> None:
        uploads = self.buckets.uploads
        name = query.get("uploadId")
        if name is None:
            name = f"upload-{next(self.buckets.generations)}"
            uploads[name] = {}
            self._send(200, _xml("InitiateMultipartUploadResult", Bucket=bucket, Key=key, UploadId=name))
        elif name not in uploads:
            raise RefusedError(404, "NoSuchUpload")
        elif self.command == "PUT":
            uploads[name][int(query["partNumber"])] = body
            self._send(200, headers={"ETag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'})
        elif self.command == "DELETE":
            del uploads[name]
            self._send(204)
        else:
            self._check_generation(self.buckets.objects[bucket].get(key))
            numbers = [int(one.text or "") for one in ElementTree.fromstring(body).iterfind(".//{*}PartNumber")]
            parts = uploads.pop(name)
            stored = self.buckets.write(bucket, key, b"".join(parts[number] for number in numbers))
            self._send(200, _xml("CompleteMultipartUploadResult", Bucket=bucket, Key=key, ETag=stored.e_tag), stored)

    def _send(
        self, status: int, data: bytes = b"", found: StoredObject | None = None, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        if found is not None:
            self.send_header("ETag", found.e_tag)
            self.send_header("x-goog-generation", str(found.generation))
            self.send_header("Last-Modified", formatdate(found.written, usegmt=True))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _found(objects: dict[str, StoredObject], key: str) -> StoredObject:
    if key not in objects:
        raise RefusedError(404, "NoSuchKey")
    return objects[key]


def _listing(bucket: str, objects: dict[str, StoredObject], query: dict[str, str]) -> bytes:
    """A page of ListObjects, version 2: keys in order of their bytes, those below a delimiter taken together."""
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
    after = query.get("continuation-token") or query.get("start-after") or ""
    left = int(query.get("max-keys", _DEFAULT_PAGE))
    root = ElementTree.Element("ListBucketResult", xmlns=_NAMESPACE)
    folders: set[str] = set()
    last = None
    for key in sorted(objects, key=str.encode):
        below = key.removeprefix(prefix) if key.startswith(prefix) else None
        if below is None or key.encode() <= after.encode():
            continue
        folder = prefix + below.partition(delimiter)[0] + delimiter if delimiter and delimiter in below else None
        if folder is not None and (folder in folders or after.startswith(folder)):
            last = key
            continue
        if not left:
            ElementTree.SubElement(root, "NextContinuationToken").text = last
            break
        left, last = left - 1, key
        if folder is None:
            _add_object(root, key, objects[key])
        else:
            folders.add(folder)
            ElementTree.SubElement(ElementTree.SubElement(root, "CommonPrefixes"), "Prefix").text = folder
    ElementTree.SubElement(root, "IsTruncated").text = str(root.find("NextContinuationToken") is not None).lower()
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _add_object(root: ElementTree.Element, key: str, found: StoredObject) -> None:
    written = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(found.written))
    one = ElementTree.SubElement(root, "Contents")
    for name, value in (
        ("Key", key),
        ("Generation", str(found.generation)),
        ("MetaGeneration", "1"),
        ("LastModified", f"{written}.{int(found.written % 1 * 1000):03}Z"),
        ("ETag", found.e_tag),
        ("Size", str(len(found.data))),
    ):
        ElementTree.SubElement(one, name).text = value


def _xml(name: str, **values: str) -> bytes:
    root = ElementTree.Element(name)
    for child, value in values.items():
        ElementTree.SubElement(root, child).text = value
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def main() -> None:
    port, token, bucket = sys.argv[1:]
    Handler.buckets = Buckets(token, {bucket: {}})
    ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()


if __name__ == "__main__":
    main()
