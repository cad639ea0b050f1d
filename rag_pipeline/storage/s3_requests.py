"""S3 requests of our own, for keys that obstore refuses: with empty parts, dots as parts, or control characters.

obstore (0.12) fails a whole listing at the first such key. S3 takes them all. Requests are signed as
docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html describes.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import ssl
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit

from rag_pipeline.storage.access import Access
from rag_pipeline.storage.failures import S3RequestError

_PAUSES_SECONDS = (0.2, 0.4, 0.8, 1.6, 3.2)
_TRANSIENT_STATUS = (429, 500, 502, 503, 504)
_TIMEOUT_SECONDS = 30
_UNSIGNED = "UNSIGNED-PAYLOAD"


class S3Requests:
    """Lists and reads objects of one bucket, whatever their keys.

    Raises:
        S3RequestError: the credentials are the machine's role, which obstore asks for and keeps to itself.
    """

    @staticmethod
    def can_reach(access: Access) -> bool:
        """Whether it is a store of S3, and its credentials are known here."""
        anonymous = dict(access.config).get("skip_signature") == "true"
        return access.address.scheme == "s3" and (anonymous or access.credentials is not None)

    def __init__(self, access: Access) -> None:
        config = dict(access.config)
        self._anonymous = config.get("skip_signature") == "true"
        self._credentials = access.credentials
        if self._credentials is None and not self._anonymous:
            raise S3RequestError("such keys are read with keys of the environment or of a profile only")
        self._region = config["region"]
        bucket = access.address.bucket
        endpoint = urlsplit(config.get("endpoint", f"https://s3.{self._region}.amazonaws.com"))
        hosted = config.get("virtual_hosted_style_request") == "true"
        self._secure = endpoint.scheme == "https"
        self._host = f"{bucket}.{endpoint.netloc}" if hosted else endpoint.netloc
        self._root = endpoint.path.rstrip("/") + ("/" if hosted else f"/{quote(bucket)}/")

    def listed(self, prefix: str) -> Iterator[dict[str, Any]]:
        """All objects whose keys begin so, as obstore describes them."""
        token = None
        while True:
            page = self._page(prefix, token)
            namespace = page.tag.rpartition("}")[0] + "}" if page.tag.startswith("{") else ""
            encoded = page.findtext(f"{namespace}EncodingType") == "url"
            for found in page.iterfind(f"{namespace}Contents"):
                key = found.findtext(f"{namespace}Key") or ""
                # Always UTC; fractions of a second, of as many places as a server likes, do not matter.
                modified = (found.findtext(f"{namespace}LastModified") or "")[:19]
                yield {
                    "path": unquote_plus(key) if encoded else key,
                    "size": int(found.findtext(f"{namespace}Size") or 0),
                    "last_modified": datetime.fromisoformat(modified).replace(tzinfo=timezone.utc),
                    "e_tag": found.findtext(f"{namespace}ETag"),
                }
            token = page.findtext(f"{namespace}NextContinuationToken")
            if token is None:
                return

    def read(self, key: str) -> tuple[bytes, dict[str, Any]]:
        """An object, and what obstore would say of it.

        Raises:
            FileNotFoundError: there is no such object.
        """
        data, headers = self.request("GET", key)
        return data, {
            "path": key,
            "size": len(data),
            "last_modified": parsedate_to_datetime(headers["last-modified"]),
            "e_tag": headers.get("etag"),
        }

    def request(
        self, method: str, key: str, query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> tuple[bytes, dict[str, str]]:
        """One request, tried again while the server fails. Returns the body and the headers, their names in lower case."""
        for pause in _PAUSES_SECONDS:
            try:
                return self._answer(method, key, query or {}, body)
            except S3RequestError as error:
                if not error.transient:
                    raise
            time.sleep(pause)
        return self._answer(method, key, query or {}, body)

    def _answer(self, method: str, key: str, query: Mapping[str, str], body: bytes) -> tuple[bytes, dict[str, str]]:
        try:
            status, data, headers = self._send(method, key, query, body)
        except (OSError, http.client.HTTPException) as error:
            raise S3RequestError(f"HTTP error: error sending request ({type(error).__name__})", transient=True) from None
        if status == 404 and b"NoSuchBucket" not in data:
            raise FileNotFoundError(key)
        if status >= 300:
            text = f"HTTP error: status code: {status} {data[:1000].decode(errors='replace')}"
            raise S3RequestError(text, transient=status in _TRANSIENT_STATUS)
        return data, headers

    def _page(self, prefix: str, token: str | None) -> ElementTree.Element:
        # XML has no way to write most control characters: without the encoding some servers put U+FFFD in their place.
        query = {"list-type": "2", "prefix": prefix, "encoding-type": "url"}
        if token is not None:
            query["continuation-token"] = token
        try:
            return ElementTree.fromstring(self.request("GET", "", query)[0])
        except ElementTree.ParseError:
            raise S3RequestError("the store's answer to a listing is no XML") from None

    def _send(self, method: str, key: str, query: Mapping[str, str], body: bytes) -> tuple[int, bytes, dict[str, str]]:
        path = self._root + quote(key, safe="/-_.~")
        arguments = "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))
        connection = (
            http.client.HTTPSConnection(self._host, timeout=_TIMEOUT_SECONDS, context=ssl.create_default_context())
            if self._secure
            else http.client.HTTPConnection(self._host, timeout=_TIMEOUT_SECONDS)
        )
        try:
            headers = self._signed(method, path, arguments)
            connection.request(method, f"{path}?{arguments}" if arguments else path, body or None, headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
        finally:
            connection.close()

    def _signed(self, method: str, path: str, arguments: str) -> dict[str, str]:
        if self._anonymous or self._credentials is None:
            return {}
        now = datetime.now(timezone.utc)
        day, moment = now.strftime("%Y%m%d"), now.strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": self._host, "x-amz-content-sha256": _UNSIGNED, "x-amz-date": moment}
        if self._credentials.token:
            headers["x-amz-security-token"] = self._credentials.token
        names = ";".join(sorted(headers))
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        canonical = f"{method}\n{path}\n{arguments}\n{lines}\n{names}\n{_UNSIGNED}"
        scope = f"{day}/{self._region}/s3/aws4_request"
        to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        key = f"AWS4{self._credentials.secret_access_key}".encode()
        for part in (day, self._region, "s3", "aws4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
        headers["authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self._credentials.access_key_id}/{scope}, "
            f"SignedHeaders={names}, Signature={signature}"
        )
        return headers
