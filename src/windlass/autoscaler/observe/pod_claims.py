"""What pods say of devices: the claims that they name, and the extended resources that devices may stand for."""

from windlass.engine import facts
from windlass.kube import fields
from windlass.kube.models import pods

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def read_pod_claims(spec: pods.PodSpec) -> tuple[facts.PodClaim, ...]:
    """The claims that a template names; those made for each pod are not known from it."""
    return tuple(
        facts.PodClaim(
            one.name or "",
            one.resource_claim_name,
            one.resource_claim_name is None and one.resource_claim_template_name is not None,
            one.resource_claim_name is not None or one.resource_claim_template_name is not None,
        )
        for one in spec.resource_claims or ()
    )


def name_claims(claims: tuple[facts.PodClaim, ...], pod: pods.Pod) -> dict[str, object]:
    """What is the pod's own in its spec: the claims that were made for it, and its name where that is asked for."""
    if not any(one.is_made_for_pod or not one.is_known for one in claims):
        return {}
    statuses = (pod.status.resource_claim_statuses if pod.status else None) or ()
    made = {one.name: one.resource_claim_name or "" for one in statuses}
    name, uid = pod.meta.name or "", pod.meta.uid or ""
    return {
        "claims": tuple(
            facts.PodClaim(one.name, made.get(one.name), True, True, name, uid)
            if one.is_made_for_pod
            else (one if one.is_known else facts.PodClaim(one.name, None, False, False, name, uid))
            for one in claims
        )
    }


def read_extended(spec: pods.PodSpec) -> tuple[facts.ExtendedRequest, ...]:
    """The extended resources that a pod requests, as kube-scheduler would ask for devices that stand for them.

    Each container that stays has a request of its own. Those that come before it may use what it will use; what they
    need beyond that is one request, the largest.
    """
    initial = spec.init_containers or ()
    containers = (*initial, *(spec.containers or ()))
    wanted = [_extended(container, i) for i, container in enumerate(containers)]
    found: list[facts.ExtendedRequest] = []
    for name in sorted({name for amounts in wanted for name in amounts}):
        staying: dict[int, int] = {}
        for i, amounts in enumerate(wanted):
            if i >= len(initial) or containers[i].is_sidecar:
                staying[i] = amounts.get(name, 0)
        passing = [
            (i, wanted[i].get(name, 0) - sum(count for later, count in staying.items() if later >= i))
            for i in range(len(initial))
            if i not in staying
        ]
        most = max(passing, key=lambda one: one[1], default=(0, 0))
        if most[1] > 0:
            found.append(_request(containers[most[0]], most[0], name, most[1]))
        found += [_request(containers[i], i, name, count) for i, count in staying.items() if count]
    return tuple(sorted(found, key=lambda one: (one.name, one.resource)))


def _extended(container: pods.Container, number: int) -> dict[str, int]:
    """Pieces by extended resource; amounts that are not whole are nobody's."""
    requests = (container.resources.requests if container.resources else None) or {}
    names = [name for name in requests if is_extended(name)]
    amounts = {name: fields.read_quantity(requests[name], f"spec.containers[{number}]") for name in names}
    return {name: amount.value() for name, amount in amounts.items() if amount.nano > 0 and amount.nano % 10**9 == 0}


def is_extended(name: str) -> bool:
    return name.startswith(CLASS_PREFIX) or ("/" in name and "kubernetes.io/" not in name)


def _request(container: pods.Container, number: int, name: str, count: int) -> facts.ExtendedRequest:
    position = sorted((container.resources.requests if container.resources else None) or ()).index(name)
    return facts.ExtendedRequest(f"container-{number}-request-{position}", name, count)
