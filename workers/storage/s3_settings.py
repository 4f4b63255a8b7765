"""Settings to reach a bucket: from the environment of the process, by the names of AWS's own tools,
or from a named connection alone.

Credentials are in no location, no option, no plan and no log; each process that opens storage,
executors of Spark included, has them in its own environment. Variables that are not listed here are
not passed on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workers.connections import BucketConnection, normalize_endpoint
from workers.errors import InvalidInput

TIMEOUT_VARIABLE = "SLUICE_STORAGE_TIMEOUT_MS"
_TIMEOUT_MS = 30_000
_TIMEOUT_MS_MAX = 600_000
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_ALLOW_HTTP = "AWS_ALLOW_HTTP"
_PASSED_ON = {
    "AWS_ACCESS_KEY_ID": "access_key_id",
    "AWS_SECRET_ACCESS_KEY": "secret_access_key",
    "AWS_SESSION_TOKEN": "session_token",
    "AWS_REGION": "region",
    "AWS_DEFAULT_REGION": "default_region",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "virtual_hosted_style_request",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "container_credentials_relative_uri",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI": "container_credentials_full_uri",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "container_authorization_token_file",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "web_identity_token_file",
    "AWS_ROLE_ARN": "role_arn",
    "AWS_ROLE_SESSION_NAME": "role_session_name",
}
_AWS_REGION = "us-east-1"
VARIABLES = (*ENDPOINT_VARIABLES, _ALLOW_HTTP, TIMEOUT_VARIABLE, *_PASSED_ON)
"""What a process needs of another one's environment to reach the same buckets."""


@dataclass(frozen=True, slots=True)
class BucketKeys:
    """Credentials that sign requests."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    """Empty for keys that do not expire."""


@dataclass(frozen=True, slots=True)
class S3Settings:
    """The settings to reach a bucket. Hashable: equal settings share their connections."""

    endpoint: str = ""
    """Empty for AWS's own."""
    allows_http: bool = False
    timeout_ms: int = _TIMEOUT_MS
    """The limit for one request, its body included."""
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """In obstore's spelling. Credentials are among them."""
    keys: BucketKeys | None = None
    """Those of a connection. Then no key of the environment is used."""


def s3_settings(environment: Mapping[str, str]) -> S3Settings:
    """Return the checked settings of the store, from the environment. Raises InvalidInput for an
    endpoint or a timeout that cannot be used.
    """
    endpoint_text = next(
        (environment[name] for name in ENDPOINT_VARIABLES if environment.get(name)), ""
    )
    allows_http = environment.get(_ALLOW_HTTP, "").lower() in ("true", "1")
    endpoint = normalize_endpoint(endpoint_text, allows_http=allows_http) if endpoint_text else ""
    return S3Settings(
        endpoint=endpoint,
        allows_http=endpoint.startswith("http://"),
        timeout_ms=_timeout_ms(environment.get(TIMEOUT_VARIABLE, "")),
        options=tuple(
            (key, environment[name]) for name, key in _PASSED_ON.items() if environment.get(name)
        ),
    )


def settings_of_connection(
    connection: BucketConnection, *, timeout_ms: int = _TIMEOUT_MS
) -> S3Settings:
    """Return the settings of a named connection.

    obstore takes every setting that it is not given from the environment. So all that decide where
    a request goes and who signs it are given: the node's keys never go to the connection's bucket,
    and the connection's keys never go to the node's endpoint (threat T33).
    """
    region = connection.region or _AWS_REGION
    endpoint = connection.endpoint or f"https://s3.{region}.amazonaws.com"
    has_keys = bool(connection.access_key_id)
    return S3Settings(
        endpoint=endpoint,
        allows_http=endpoint.startswith("http://"),
        timeout_ms=timeout_ms,
        options=(
            ("region", region),
            ("virtual_hosted_style_request", "false"),
            ("skip_signature", "false" if has_keys else "true"),
            # Else a key of the node for encryption by customer keys would be sent along.
            ("aws_server_side_encryption", "AES256"),
        ),
        keys=BucketKeys(
            connection.access_key_id, connection.secret_access_key, connection.session_token
        )
        if has_keys
        else None,
    )


def _timeout_ms(text: str) -> int:
    if not text:
        return _TIMEOUT_MS
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _TIMEOUT_MS_MAX:
        raise InvalidInput(f"{TIMEOUT_VARIABLE} is 1 to {_TIMEOUT_MS_MAX}", given=text[:40])
    return int(text)
