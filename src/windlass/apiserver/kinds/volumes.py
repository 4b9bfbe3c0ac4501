"""Volumes, claims and their classes."""

from windlass.apiserver.kinds.strategy import Strategy
from windlass.apiserver.types.model import Json


class Volumes(Strategy):
    """PersistentVolumes."""

    def default(self, obj: Json) -> None:
        obj["status"].setdefault("phase", "Pending")
        obj["spec"].setdefault("persistentVolumeReclaimPolicy", "Retain")
        obj["spec"].setdefault("volumeMode", "Filesystem")

    def new_status(self, obj: Json) -> Json:
        return {"phase": "Pending"}


class Claims(Strategy):
    """PersistentVolumeClaims."""

    def default(self, obj: Json) -> None:
        obj["status"].setdefault("phase", "Pending")
        obj["spec"].setdefault("volumeMode", "Filesystem")

    def new_status(self, obj: Json) -> Json:
        return {"phase": "Pending"}


class StorageClasses(Strategy):
    """StorageClasses."""

    def default(self, obj: Json) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")


class Drivers(Strategy):
    """CSIDrivers."""

    def default(self, obj: Json) -> None:
        spec = obj["spec"]
        for name, value in (
            ("attachRequired", True),
            ("podInfoOnMount", False),
            ("storageCapacity", False),
            ("fsGroupPolicy", "ReadWriteOnceWithFSType"),
            ("requiresRepublish", False),
            ("seLinuxMount", False),
        ):
            spec.setdefault(name, value)
        spec.setdefault("volumeLifecycleModes", ["Persistent"])
