"""Proxies of the environment. What is expected here is what golang.org/x/net/http/httpproxy answers (Go 1.26)."""

import pytest

from windlass.kube import rest_config

PROXY = "http://proxy:3128"
DIRECT = {
    "": (),
    "*": ("https://example.com", "https://10.1.2.3:6443", "https://[fd00::1]"),
    "x,*": ("https://example.com",),
    "10.0.0.0/8": ("https://10.1.2.3", "https://10.255.0.1:6443", "https://[::ffff:10.1.2.3]:6443"),
    "10.0.0.0/8,.svc": (
        "https://10.1.2.3:6443",
        "https://kubernetes.default.svc",
        "https://KUBERNETES.default.SVC:443",
    ),
    " 10.0.0.0/8 , .cluster.local ": ("https://10.1.2.3", "https://a.cluster.local"),
    "10.1.2.3": ("https://10.1.2.3", "https://10.1.2.3:6443"),
    "10.1.2.3:6443": ("https://10.1.2.3:6443",),
    "10.1.2.3:443": ("https://10.1.2.3", "https://10.1.2.3:443/api"),
    "::ffff:10.1.2.3": ("https://10.1.2.3",),
    "::ffff:0:0/96": ("https://10.1.2.3",),
    "fd00::/8": ("https://[fd00::1]:6443",),
    "fd00::1": ("https://[fd00::1]", "https://[fd00::1]:6443"),
    "[fd00::1]": (),
    "[fd00::1]:6443": ("https://[fd00::1]:6443",),
    "example.com": ("https://example.com", "https://a.example.com:6443", "https://user:word@example.com"),
    "EXAMPLE.com": ("https://example.com",),
    "example.com:6443": ("https://example.com:6443", "https://a.example.com:6443"),
    "example.com:443": ("https://example.com",),
    ".example.com": ("https://a.example.com", "https://a.b.example.com"),
    "*.example.com": ("https://a.example.com",),
    "foo,,bar": ("https://foo", "https://bar:8"),
    "0.0.0.0/0": ("https://10.1.2.3",),
}
"""URLs that NO_PROXY has reached directly."""
PROXIED = {
    "": ("https://example.com", "https://10.1.2.3", "https://localhost.localdomain"),
    "10.0.0.0/8": ("https://11.1.2.3", "https://example.com", "https://[fd00::1]"),
    "10.0.0.0/33": ("https://10.1.2.3",),
    "10.0.0.0/": ("https://10.1.2.3",),
    "10.1.2.3:6443": ("https://10.1.2.3", "https://10.1.2.3:443"),
    "[fd00::1]:6443": ("https://[fd00::1]",),
    "[fd00::1]": ("https://[fd00::1]",),
    "1.2.3": ("https://10.1.2.3",),
    "0.0.0.0/0": ("https://[fd00::1]", "https://example.com"),
    "::/0": ("https://10.1.2.3",),
    "example.com": ("https://sample.com", "https://notexample.com", "https://example.com.evil.org"),
    "example.com:6443": ("https://example.com",),
    ".example.com": ("https://example.com",),
    "*.example.com": ("https://example.com",),
    "*example.com": ("https://a.example.com",),
    ":6443": ("https://example.com:6443",),
    "*:6443": ("https://example.com:6443",),
    ".": ("https://example.com",),
}
"""URLs that go by way of the proxy all the same."""
LOOPBACK = ["https://localhost:6443", "https://127.0.0.1", "https://127.5.5.5:1", "https://[::1]:1"]


def pairs(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(exceptions, url) for exceptions, urls in table.items() for url in urls]


@pytest.mark.parametrize("name", ["NO_PROXY", "no_proxy"])
@pytest.mark.parametrize(("exceptions", "url"), pairs(DIRECT))
def test_exceptions_are_reached_directly(name: str, exceptions: str, url: str) -> None:
    assert rest_config.find_proxy(url, {"HTTPS_PROXY": PROXY, name: exceptions}) is None


@pytest.mark.parametrize(("exceptions", "url"), pairs(PROXIED))
def test_all_else_goes_by_way_of_the_proxy(exceptions: str, url: str) -> None:
    assert rest_config.find_proxy(url, {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}) == PROXY


@pytest.mark.parametrize("url", LOOPBACK)
def test_loopback_never_has_a_proxy(url: str) -> None:
    assert rest_config.find_proxy(url, {"HTTPS_PROXY": PROXY}) is None


@pytest.mark.parametrize(
    ("url", "environment", "proxy"),
    [
        ("https://a", {}, None),
        ("https://a", {"HTTPS_PROXY": "http://p"}, "http://p"),
        ("https://a", {"https_proxy": "http://p"}, "http://p"),
        ("https://a", {"HTTPS_PROXY": "", "https_proxy": "http://p"}, "http://p"),
        ("https://a", {"HTTPS_PROXY": "http://p", "https_proxy": "http://q"}, "http://p"),
        ("https://a", {"HTTP_PROXY": "http://p"}, None),
        ("http://a", {"HTTPS_PROXY": "http://p"}, None),
        ("http://a", {"HTTP_PROXY": "http://p"}, "http://p"),
        ("http://a", {"http_proxy": "http://p"}, "http://p"),
        ("http://a", {"HTTP_PROXY": "http://p", "REQUEST_METHOD": "GET"}, None),
        ("https://a", {"HTTPS_PROXY": "http://p", "REQUEST_METHOD": "GET"}, "http://p"),
        ("https://a", {"HTTPS_PROXY": "p:3128"}, "http://p:3128"),
        ("https://a", {"HTTPS_PROXY": "p"}, "http://p"),
        ("https://a", {"HTTPS_PROXY": "http://user:word@p:3128"}, "http://user:word@p:3128"),
        ("ftp://a", {"HTTP_PROXY": "http://p", "HTTPS_PROXY": "http://p"}, None),
        ("https://a", {"ALL_PROXY": "http://p"}, None),
        ("https://bücher.example", {"HTTPS_PROXY": "http://p", "NO_PROXY": "xn--bcher-kva.example"}, None),
        ("https://a.bücher.example", {"HTTPS_PROXY": "http://p", "NO_PROXY": "bücher.example"}, None),
    ],
)
def test_the_scheme_chooses_the_variable(url: str, environment: dict[str, str], proxy: str | None) -> None:
    assert rest_config.find_proxy(url, environment) == proxy
