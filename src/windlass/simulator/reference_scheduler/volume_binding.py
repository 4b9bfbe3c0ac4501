"""VolumeBinding: bound volumes must be reachable from the node; unbound claims need a volume there, or a new one."""

from dataclasses import dataclass

from windlass import quantity
from windlass.simulator.reference_scheduler import label_selectors, volumes
from windlass.simulator.reference_scheduler.cluster_view import (
    ClusterView,
    Json,
    NodeView,
    annotations_of,
    is_terminating,
    labels_of,
)
from windlass.simulator.reference_scheduler.framework import FilterError, FilterPlugin, Rejection, StatusCode

PLUGIN = "VolumeBinding"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
NOT_ENOUGH_SPACE = "node(s) did not have enough free storage"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """Volumes on a node for the claims of a pod: static bindings and provisionings, or the reasons for conflict."""

    reasons: tuple[str, ...] = ()
    bindings: tuple[tuple[Json, Json], ...] = ()
    """Claims with the existing volume that each would be bound to."""
    provisions: tuple[Json, ...] = ()
    """Claims to be provisioned."""


@dataclass(frozen=True, slots=True)
class VolumeBinding(FilterPlugin):
    """Claims of one pod: bound ones, and unbound ones that wait for the first consumer."""

    plugin = PLUGIN
    cluster: ClusterView
    bound: list[Json]
    waiting: list[Json]

    def filter(self, node: NodeView) -> Rejection | None:
        reasons = self.find_volumes(node).reasons
        return self.unresolvable(*reasons) if reasons else None

    def find_volumes(self, node: NodeView) -> PodVolumes:
        reasons = self._check_bound(node)
        selected = [annotations_of(claim).get(SELECTED_NODE) for claim in self.waiting]
        if any(name is not None and name != node.name for name in selected):
            return PodVolumes((*reasons, NOTHING_TO_BIND))
        to_make = [claim for claim, name in zip(self.waiting, selected, strict=True) if name is not None]
        to_match = [claim for claim, name in zip(self.waiting, selected, strict=True) if name is None]
        bindings, unmatched = self._match(to_match, node)
        to_make += unmatched
        for claim in to_make:
            reason = self._provisioning_obstacle(claim, node)
            if reason:
                return PodVolumes((*reasons, reason))
        return PodVolumes(reasons, tuple(bindings), tuple(to_make))

    def _check_bound(self, node: NodeView) -> tuple[str, ...]:
        csi_node = self.cluster.find("CSINode", node.name)
        for claim in self.bound:
            volume = self.cluster.find("PersistentVolume", claim["spec"]["volumeName"])
            if volume is None:
                return (VOLUME_GONE,)
            required = volumes.translated_node_affinity(volume, csi_node)
            if required is not None and not label_selectors.matches_node_selector(required, node.labels, ""):
                return (UNREACHABLE,)
        return ()

    def _match(self, claims: list[Json], node: NodeView) -> tuple[list[tuple[Json, Json]], list[Json]]:
        """Claims matched with existing volumes, smallest first, and the unmatched claims.

        A claim that the pod mounts twice is listed twice and looks for two volumes.
        """
        bindings: list[tuple[Json, Json]] = []
        unmatched = []
        for claim in sorted(claims, key=lambda claim: (volumes.requested_size(claim) or quantity.ZERO).nano):
            if fault := label_selectors.selector_error(claim["spec"].get("selector")):
                key = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
                raise FilterError(f"error creating internal label selector for claim: {key}: {fault}")
            volume = self._best_volume(claim, node, [volume for _, volume in bindings])
            if volume is None:
                unmatched.append(claim)
            else:
                bindings.append((claim, volume))
        return bindings, unmatched

    def _best_volume(self, claim: Json, node: NodeView, taken: list[Json]) -> Json | None:
        """The volume pre-bound to the claim, or else the smallest sufficient one."""
        best: Json | None = None
        for volume in self.cluster.all_of("PersistentVolume").values():
            if any(volume is item for item in taken) or not _could_serve(volume, claim):
                continue
            required = (volume["spec"].get("nodeAffinity") or {}).get("required")
            is_reachable = required is None or label_selectors.matches_node_selector(required, node.labels, "")
            if volume["spec"].get("claimRef"):
                return volume if is_reachable else None
            if is_reachable and _is_free_for(volume, claim) and (best is None or _size(volume) < _size(best)):
                best = volume
        return best

    def _provisioning_obstacle(self, claim: Json, node: NodeView) -> str | None:
        name = volumes.storage_class_of(claim)
        storage_class = self.cluster.find("StorageClass", name)
        if storage_class is None:
            raise FilterError(f'failed to find storage class "{name}"')
        if storage_class.get("provisioner", "") in ("", NO_PROVISIONER):
            return NOTHING_TO_BIND
        if not _topology_allows(storage_class.get("allowedTopologies") or (), node):
            return NOTHING_TO_BIND
        return None if self._has_space(claim, storage_class, node) else NOT_ENOUGH_SPACE

    def _has_space(self, claim: Json, storage_class: Json, node: NodeView) -> bool:
        """Capacity is checked only for drivers that publish it."""
        driver = self.cluster.find("CSIDriver", storage_class["provisioner"])
        size = volumes.requested_size(claim)
        if size is None or driver is None or not driver["spec"].get("storageCapacity"):
            return True
        return any(
            capacity["storageClassName"] == storage_class["metadata"]["name"]
            and _largest_provisionable(capacity) >= size.value()
            and not label_selectors.selector_error(capacity.get("nodeTopology"))
            and label_selectors.matches_selector(capacity.get("nodeTopology"), node.labels)
            for capacity in self.cluster.all_of("CSIStorageCapacity").values()
        )


def pre_filter(pod: Json, cluster: ClusterView) -> FilterPlugin | Rejection | None:
    claims: list[Json] = []
    for use in volumes.claims_used_by(pod):
        claim = volumes.find_claim(cluster, pod, use.name)
        if claim is None:
            return Rejection(PLUGIN, StatusCode.UNRESOLVABLE, (_missing_reason(use),))
        reason = _unusable_reason(pod, use, claim)
        if reason:
            return Rejection(PLUGIN, StatusCode.UNRESOLVABLE, (reason,))
        claims.append(claim)
    if not claims:
        return None
    bound = [claim for claim in claims if _is_bound(claim)]
    waiting = [claim for claim in claims if not _is_bound(claim)]
    if not all(_is_delayed_binding(claim, cluster) for claim in waiting):
        return Rejection(PLUGIN, StatusCode.UNRESOLVABLE, ("pod has unbound immediate PersistentVolumeClaims",))
    return VolumeBinding(cluster, bound, waiting)


def _missing_reason(use: volumes.ClaimUse) -> str:
    if use.is_ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
    return volumes.claim_not_found("persistentvolumeclaim", use.name)


def _unusable_reason(pod: Json, use: volumes.ClaimUse, claim: Json) -> str | None:
    if (claim.get("status") or {}).get("phase") == "Lost":
        volume_name = claim["spec"].get("volumeName") or ""
        return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume_name}"'
    if is_terminating(claim):
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    if use.is_ephemeral:
        try:
            volumes.check_owner(pod, claim)
        except FilterError as error:
            return str(error)
    return None


def _is_bound(claim: Json) -> bool:
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations_of(claim)


def _is_delayed_binding(claim: Json, cluster: ClusterView) -> bool:
    """May the claim be bound after scheduling: WaitForFirstConsumer, and no volume by name?"""
    storage_class = cluster.find("StorageClass", volumes.storage_class_of(claim))
    if storage_class is None or claim["spec"].get("volumeName"):
        return False
    return volumes.waits_for_consumer(storage_class)


def _could_serve(volume: Json, claim: Json) -> bool:
    """Do class, mode and size match, and is the volume not pre-bound to another claim?"""
    spec, desired = volume["spec"], claim["spec"]
    if volumes.storage_class_of(volume) != volumes.storage_class_of(claim) or is_terminating(volume):
        return False
    if spec.get("claimRef") and not _is_pre_bound_to(volume, claim):
        return False
    if _size(volume) < (volumes.requested_size(claim) or quantity.ZERO).nano:
        return False
    if (spec.get("volumeMode") or "Filesystem") != (desired.get("volumeMode") or "Filesystem"):
        return False
    return (spec.get("volumeAttributesClassName") or "") == (desired.get("volumeAttributesClassName") or "")


def _is_pre_bound_to(volume: Json, claim: Json) -> bool:
    promised, metadata = volume["spec"]["claimRef"], claim["metadata"]
    if (promised.get("name"), promised.get("namespace")) != (metadata["name"], metadata["namespace"]):
        return False
    return not promised.get("uid") or promised["uid"] == metadata.get("uid")


def _is_free_for(volume: Json, claim: Json) -> bool:
    if (volume.get("status") or {}).get("phase") != "Available":
        return False
    selector = claim["spec"].get("selector")
    if selector is not None and not label_selectors.matches_selector(selector, labels_of(volume)):
        return False
    return set(claim["spec"].get("accessModes") or ()).issubset(volume["spec"].get("accessModes") or ())


def _size(volume: Json) -> int:
    """In nano-bytes: volumes are compared exactly."""
    return quantity.read_quantity((volume["spec"].get("capacity") or {}).get("storage")).nano


def _largest_provisionable(capacity: Json) -> int:
    """Bytes of the largest volume that can be provisioned; negative if unknown."""
    limit = capacity.get("maximumVolumeSize", capacity.get("capacity"))
    return -1 if limit is None else quantity.read_quantity(limit).value()


def _topology_allows(terms: list[Json] | tuple[Json, ...], node: NodeView) -> bool:
    """No terms allow every node; an empty term allows none."""
    return not terms or any(_term_allows(term, node.labels) for term in terms)


def _term_allows(term: Json, labels: label_selectors.Labels) -> bool:
    expressions = term.get("matchLabelExpressions") or ()
    if any(label_selectors.requirement_errors(item["key"], "In", item.get("values") or []) for item in expressions):
        return False
    return bool(expressions) and all(labels.get(entry["key"]) in entry["values"] for entry in expressions)
