"""Services through `apprise`: only those whose hosts are fixed in the library.

Its plugins for hosts of the user (ntfy, gotify, matrix, mattermost, JSON and XML posts, mail) are
left out: a webhook or mail reaches these, with an address that Sluice checks. So are plugins that
run programs or use other protocols than HTTPS. The listed plugins send with the name `requests` of
their module, which is replaced by an object that uses `controlplane.outgoing`.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import requests
from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType

from controlplane.errors import InvalidRequest
from controlplane.outgoing.addresses import URL_CHARS_MAX, AddressRefused
from controlplane.outgoing.sending import Answer, Outgoing, SendFailed

SERVICES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "discord": "Discord",
        "gchat": "Google Chat",
        "opsgenie": "Opsgenie",
        "pagerduty": "PagerDuty",
        "pover": "Pushover",
        "tgram": "Telegram",
        "wxteams": "Webex Teams",
    }
)
"""Services by the scheme of their addresses in apprise."""
_TYPES: Final = MappingProxyType(
    {
        "critical": NotifyType.FAILURE,
        "warning": NotifyType.WARNING,
        "info": NotifyType.INFO,
        "resolved": NotifyType.SUCCESS,
    }
)
_sending = threading.Lock()

# Its log contains addresses with their secrets.
logging.getLogger("apprise").disabled = True


def check_service_address(address: str) -> None:
    """Raise InvalidRequest for an address that apprise rejects, or of an unlisted service."""
    _load_plugin(address)


def send_to_service(
    address: str, *, title: str, body: str, severity: str, outgoing: Outgoing
) -> int:
    """Send through a service; return the last status. Raises AddressRefused, SendFailed,
    InvalidRequest.
    """
    plugin = _load_plugin(address)
    module = sys.modules[type(plugin).__module__]
    with _sending:
        ours = _CheckedRequests(outgoing)
        module.requests = ours  # type: ignore[attr-defined]  # the name that it imported
        is_sent = plugin.notify(
            title=title, body=body, notify_type=_TYPES[severity], body_format=NotifyFormat.TEXT
        )
    if ours.refused is not None:
        raise ours.refused
    if ours.status is None:
        raise SendFailed(ours.problem or "apprise sent nothing")
    if not is_sent and 200 <= ours.status < 300:
        raise SendFailed(f"the service answered {ours.status}, which apprise reports as a failure")
    return ours.status


class _CheckedRequests:
    """The part of the library `requests` that plugins use, limited to allowed addresses."""

    codes = requests.codes
    RequestException = requests.RequestException

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self.status: int | None = None
        self.refused: AddressRefused | None = None
        self.problem = ""

    def post(self, url: str, **options: Any) -> requests.Response:
        return self.request("POST", url, **options)

    def get(self, url: str, **options: Any) -> requests.Response:
        return self.request("GET", url, **options)

    def request(
        self,
        method: str,
        url: str,
        *,
        data: Any = None,
        json: Any = None,
        params: Any = None,
        headers: Mapping[str, str] | None = None,
        auth: Any = None,
        **_ignored: Any,
    ) -> requests.Response:
        """Send a request without the timeouts, proxies, redirects and certificates of a plugin."""
        prepared = requests.Request(
            method, url, data=data, json=json, params=params, headers=headers, auth=auth
        ).prepare()
        body = prepared.body or b""
        try:
            answer = self._outgoing.request(
                method,
                prepared.url or "",
                body=body.encode() if isinstance(body, str) else body,
                headers=prepared.headers,
            )
        except (AddressRefused, SendFailed) as error:
            # A plugin handles it as a failed connection; the problem is kept for the log.
            self.problem = str(error)
            self.refused = error if isinstance(error, AddressRefused) else None
            raise requests.ConnectionError("not sent") from error
        self.status = answer.status
        return _response(answer, prepared.url or "")


def _response(answer: Answer, url: str) -> requests.Response:
    response = requests.Response()
    response.status_code = answer.status
    response.headers.update(answer.headers)
    response.url = url
    response._content = answer.body
    return response


def _load_plugin(address: str) -> Any:
    scheme = address.partition("://")[0].lower()
    if scheme not in SERVICES or len(address) > URL_CHARS_MAX:
        raise InvalidRequest(
            "unknown service: use a webhook, mail, or one of: "
            + ", ".join(f"{name}://" for name in SERVICES)
        )
    asset = AppriseAsset(async_mode=False)
    plugin = Apprise.instantiate(address, asset=asset, suppress_exceptions=True)
    if plugin is None:
        raise InvalidRequest(
            f"invalid address of {SERVICES[scheme]}: see its form in the documentation of apprise"
        )
    return plugin
