"""Files in the bucket of a named connection: its keys and no others, its prefix, and no table."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from bench.support.s3_server import BUCKET, shared_server
from workers.connections import BucketConnection
from workers.errors import InvalidInput, StorageFailed
from workers.storage.opener import check_bucket, ensure_local_file, open_with
from workers.storage.source_places import check_in_no_table, place_in_bucket

SECRET = "hunter2-canary"


@pytest.fixture
def drop() -> BucketConnection:
    environment = shared_server().environment
    return BucketConnection(
        bucket=BUCKET,
        prefix=f"drop-{uuid.uuid4().hex}",
        endpoint=environment["AWS_ENDPOINT_URL"],
        access_key_id=environment["AWS_ACCESS_KEY_ID"],
        secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
    )


class _Recorder(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.seen: list[dict[str, str]] = []
        self.callers: list[object] = []

    def verify_request(self, request: object, client_address: object) -> bool:
        self.callers.append(client_address)
        return True


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Recorder)
        self.server.seen.append({name.lower(): value for name, value in self.headers.items()})
        self.send_response(404)
        self.end_headers()

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def recorder() -> Iterator[_Recorder]:
    server = _Recorder()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("session_token", ["", "of-the-connection"])
def test_a_bucket_is_sent_its_own_keys_and_none_of_the_nodes(
    recorder: _Recorder, monkeypatch: pytest.MonkeyPatch, session_token: str
) -> None:
    """Threat T33: obstore takes from the environment whatever it is not given."""
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "SSE_CUSTOMER_KEY_BASE64"):
        monkeypatch.setenv(f"AWS_{name}", "of-the-node")
    for name in ("SKIP_SIGNATURE", "VIRTUAL_HOSTED_STYLE_REQUEST"):
        monkeypatch.setenv(f"AWS_{name}", "true")
    monkeypatch.setenv("AWS_REGION", "nowhere-1")
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "sse-c")
    address = f"http://127.0.0.1:{recorder.server_port}"
    own = BucketConnection(
        bucket="drop",
        endpoint=address,
        access_key_id="AKOWN",
        secret_access_key=SECRET,
        session_token=session_token,
    )
    public = BucketConnection(bucket="drop", endpoint=address)

    for connection in (own, public):
        assert open_with(connection, connection.location).info("orders.csv") is None

    signed, unsigned = recorder.seen
    assert "Credential=AKOWN/" in signed["authorization"]
    assert "/us-east-1/" in signed["authorization"]
    assert signed.get("x-amz-security-token", "") == session_token
    assert "authorization" not in unsigned
    assert "of-the-node" not in str(recorder.seen)


def test_the_keys_of_a_connection_go_to_amazon_and_not_to_the_endpoint_of_the_node(
    recorder: _Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threat T33. A region that is none, so that nothing is reached."""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, f"https://127.0.0.1:{recorder.server_port}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    connection = BucketConnection(
        bucket="drop", region="nowhere-7", access_key_id="AK", secret_access_key=SECRET
    )

    with pytest.raises(StorageFailed) as failed:
        check_bucket(connection)

    assert recorder.callers == []
    assert SECRET not in str(failed.value)


def test_a_file_of_the_bucket_is_read_below_the_prefix(
    drop: BucketConnection, tmp_path: Path
) -> None:
    open_with(drop, drop.location).put("2026/orders.csv", b"id\n1\n")
    root = replace(drop, prefix="")

    for connection, path in ((drop, "2026/orders.csv"), (root, f"{drop.prefix}/2026/orders.csv")):
        check_bucket(connection)
        place = place_in_bucket(connection, path, [])
        check_in_no_table(place, connection)
        copy = ensure_local_file(place, tmp_path, bytes_max=100, connection=connection)
        assert copy.read_bytes() == b"id\n1\n"


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", ".", "..", "../other.csv", "a/../../other.csv", "/etc/passwd", "a//b.csv"),
        *("s3://lake/other.csv", "*.csv", "a?versionId=1", "a\\..\\b", "a#b", "a\x00b", "a/./b"),
    ],
)
def test_a_path_stays_below_the_prefix(drop: BucketConnection, path: str) -> None:
    """Threat T33."""
    with pytest.raises(InvalidInput) as refused:
        place_in_bucket(drop, path, [])

    assert drop.prefix not in str(refused.value)


def test_a_path_into_a_table_is_refused_whether_it_is_known_or_not(drop: BucketConnection) -> None:
    """Threats T29 and T33: rows of tables are read by row access, whatever reaches their files."""
    bucket = open_with(drop, drop.location)
    bucket.put("orders/.hoodie/hoodie.properties", b"")

    for path in ("orders/a.parquet", "orders/day=1/a.parquet", "orders-dead-letters/1.json"):
        with pytest.raises(InvalidInput, match="table"):
            check_in_no_table(place_in_bucket(drop, path, []), drop)
    own = replace(drop, prefix=f"{drop.prefix}/orders")
    with pytest.raises(InvalidInput, match="table"):
        check_in_no_table(place_in_bucket(own, "a.parquet", []), own)
    for root in (f"{drop.location}/orders", drop.location):
        with pytest.raises(InvalidInput, match="table"):
            place_in_bucket(drop, "orders/a.parquet", [root])
    assert place_in_bucket(drop, "a.parquet", ["s3://lake", f"{drop.location}/orders"])


def test_a_bucket_that_is_not_there_is_named(drop: BucketConnection) -> None:
    with pytest.raises(StorageFailed, match="NoSuchBucket"):
        check_bucket(replace(drop, bucket="no-such-bucket"))
    with pytest.raises(StorageFailed, match=r"127\.0\.0\.1:1"):
        check_bucket(replace(drop, endpoint="http://127.0.0.1:1"))
