"""Services that are reached by `apprise`: those few whose hosts the library itself names.

Its plugins for hosts that a user names (ntfy, gotify, matrix, mattermost, JSON and XML posts, mail)
are left out: a webhook or mail reaches these, by an address that we judge. So are those that run
programs or speak anything but HTTPS. What is listed posts by the name `requests` of its plugin's
module, and there that name is bound to ours, which goes through `controlplane.outgoing`.
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
"""By the scheme of their addresses, as apprise documents them."""
_TYPES: Final = MappingProxyType(
    {
        "critical": NotifyType.FAILURE,
        "warning": NotifyType.WARNING,
        "info": NotifyType.INFO,
        "resolved": NotifyType.SUCCESS,
    }
)
_sending = threading.Lock()

# It writes addresses, with what opens them, into its log.
logging.getLogger("apprise").disabled = True


def refuse_service_address(address: str) -> None:
    """Refuse, as InvalidRequest, what apprise does not read, or is not in `SERVICES`."""
    _plugin(address)


def send_to_service(
    address: str, *, title: str, body: str, severity: str, outgoing: Outgoing
) -> int:
    """The status of the last answer. Raises AddressRefused, SendFailed, InvalidRequest."""
    plugin = _plugin(address)
    module = sys.modules[type(plugin).__module__]
    with _sending:
        ours = _OurRequests(outgoing)
        module.requests = ours  # type: ignore[attr-defined]  # the name that it imported
        is_sent = plugin.notify(
            title=title, body=body, notify_type=_TYPES[severity], body_format=NotifyFormat.TEXT
        )
    if ours.refused is not None:
        raise ours.refused
    if ours.status is None:
        raise SendFailed(ours.problem or "apprise sent nothing")
    if not is_sent and 200 <= ours.status < 300:
        raise SendFailed(f"the service took it with {ours.status} and apprise calls it a failure")
    return ours.status


class _OurRequests:
    """What plugins use of the library `requests`, over addresses that were judged."""

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
        """Time limits, proxies, redirects and laxer certificates of a plugin are ignored."""
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
            # A plugin takes it for a failed connection; what it was is kept for the log.
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


def _plugin(address: str) -> Any:
    scheme = address.partition("://")[0].lower()
    if scheme not in SERVICES or len(address) > URL_CHARS_MAX:
        raise InvalidRequest(
            "this service is not in the list; use a webhook or mail, or one of: "
            + ", ".join(f"{name}://" for name in SERVICES)
        )
    asset = AppriseAsset(async_mode=False)
    plugin = Apprise.instantiate(address, asset=asset, suppress_exceptions=True)
    if plugin is None:
        raise InvalidRequest(f"this is no address of {SERVICES[scheme]} as apprise documents it")
    return plugin
