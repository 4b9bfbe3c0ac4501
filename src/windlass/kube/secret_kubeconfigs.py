"""Kubeconfigs that are read from Secrets: whoever may write the Secret must gain nothing by what it says.

Besides files and plugins (`kubeconfig.parse`) these are refused: addresses with a query, a fragment or a user, always;
plain HTTP, proxies, servers that are not verified, and addresses that only we can reach, unless they are allowed.
Addresses are looked at again when a connection is made, after names are resolved.
"""

import dataclasses
from urllib import parse

from windlass import clock, errors
from windlass.kube import access, addresses, kubeconfig

ALLOWED_BY = "--machine-pool-allow-insecure-kubeconfigs"


def read(time: clock.Clock, text: bytes, name: str, *, allow_insecure: bool = False) -> access.Access:
    """What the current context of a kubeconfig leads to. InvalidInput says what is refused, and what would allow it."""
    config = kubeconfig.parse(text, name)
    found = access.of_context(time, config, allow_insecure=True)
    cluster = config.clusters[config.contexts[config.current_context].found.cluster].found
    if refusal := _explain_refusal(cluster):
        raise errors.InvalidInput(f"kubeconfig {name}: {refusal}")
    if not allow_insecure and (refusal := _explain_insecure(cluster)):
        raise errors.InvalidInput(f"kubeconfig {name}: {refusal} ({ALLOWED_BY} allows it)")
    return dataclasses.replace(found, is_guarded=not allow_insecure)


def _explain_refusal(cluster: kubeconfig.Cluster) -> str:
    url = parse.urlsplit(cluster.server)
    if "?" in cluster.server or "#" in cluster.server:
        return "server: found a query or a fragment, expected https://host:port"
    if "@" in url.netloc:
        return "server: found a user, expected https://host:port"
    return ""


def _explain_insecure(cluster: kubeconfig.Cluster) -> str:
    url = parse.urlsplit(cluster.server)
    if url.scheme != "https":
        return f"server: found {url.scheme}, expected https"
    if cluster.insecure_skip_tls_verify:
        return "insecure-skip-tls-verify: found true, expected a certificate-authority"
    if cluster.proxy_url:
        return "proxy-url: found one, expected none"
    refusal = addresses.explain_refusal(url.hostname or "")
    return f"server: {refusal}" if refusal else ""
