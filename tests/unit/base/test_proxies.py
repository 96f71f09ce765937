"""Proxies of the environment are found as kubectl finds them."""

from __future__ import annotations

import urllib.request

import pytest

from actions.base.errors import ConfigError
from actions.base.proxies import past_proxies, proxy_for

PROXY = "http://proxy.example:3128"
FAR = "https://10.1.2.3:6443/k8s"


@pytest.mark.parametrize(
    ("address", "variables", "found"),
    [
        (FAR, {}, ""),
        (FAR, {"HTTPS_PROXY": PROXY}, PROXY),
        (FAR, {"https_proxy": PROXY}, PROXY),
        (FAR, {"HTTP_PROXY": PROXY}, ""),
        ("http://10.1.2.3", {"HTTP_PROXY": PROXY}, PROXY),
        (FAR, {"HTTPS_PROXY": "proxy.example:3128"}, PROXY),
        (FAR, {"HTTPS_PROXY": PROXY, "NO_PROXY": " , a.example"}, PROXY),
        ("https://127.0.0.1:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://127.9.9.9:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://[::1]:6443", {"HTTPS_PROXY": PROXY}, ""),
        ("https://localhost:6443", {"HTTPS_PROXY": PROXY}, ""),
    ],
)
def test_the_variable_for_the_scheme_counts_but_not_for_this_machine(
    address: str, variables: dict[str, str], found: str
) -> None:
    assert proxy_for(address, variables) == found


@pytest.mark.parametrize(
    ("exception", "address", "is_direct"),
    [
        ("*", FAR, True),
        ("10.0.0.0/8", FAR, True),
        ("10.2.0.0/16", FAR, False),
        ("10.0.0.0/8", "https://ten.example", False),
        ("10.1.2.3", FAR, True),
        ("10.1.2.3:6443", FAR, True),
        ("10.1.2.3:443", FAR, False),
        ("not/a/network", FAR, False),
        ("eks.amazonaws.com", "https://A1.gr7.us-west-2.EKS.amazonaws.com", True),
        ("amazonaws.com", "https://otheramazonaws.com", False),
        (".amazonaws.com", "https://amazonaws.com", False),
        ("*.amazonaws.com", "https://eks.amazonaws.com", True),
        ("amazonaws.com:443", "https://eks.amazonaws.com", True),
        ("other.example, Eks.example", "https://eks.example", True),
        ("fd00::/8", "https://[fd00::7]:6443", True),
        ("[fd00::7]:6443", "https://[fd00::7]:6443", True),
        ("fd00::7", "https://[fd00::7]:6443", True),
        ("[fd00::7]:443", "https://[fd00::7]:6443", False),
    ],
)
def test_exceptions_are_domains_addresses_and_networks(exception: str, address: str, is_direct: bool) -> None:
    found = proxy_for(address, {"HTTPS_PROXY": PROXY, "NO_PROXY": exception})
    assert (found == "") is is_direct


def test_a_proxy_that_speaks_something_else_is_named_by_its_variable_not_by_its_password() -> None:
    with pytest.raises(ConfigError, match=r"^\$https_proxy is not a proxy that can be used\.$"):
        proxy_for(FAR, {"https_proxy": "socks5://me:secret@proxy.example"})


def test_libraries_that_ask_a_proxy_for_this_machine_are_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    for name, value in past_proxies({"no_proxy": "corp.example"}).items():
        monkeypatch.setenv(name, value)
    assert urllib.request.proxy_bypass("127.0.0.1:8080")
    assert urllib.request.proxy_bypass("git.corp.example")
    assert not urllib.request.proxy_bypass("sts.amazonaws.com")
