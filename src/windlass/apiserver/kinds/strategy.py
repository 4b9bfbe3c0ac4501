"""The questions that every kind answers."""

from typing import ClassVar

from windlass.apiserver import names, status
from windlass.apiserver.types import normalise
from windlass.apiserver.types.model import Json

Errors = list[status.FieldError]


class Strategy:
    """A kind that does nothing special; others override what they do otherwise."""

    counts_generations: ClassVar[bool] = False
    """Does a change of the spec raise the generation?"""
    creates_on_update: ClassVar[bool] = False
    """Does a PUT of an object that is not there create it?"""
    needs_version_to_update: ClassVar[bool] = False
    """Is a PUT without resourceVersion refused?"""
    keeps_posted_status: ClassVar[bool] = False
    status_keeps: ClassVar[tuple[str, ...]] = ("spec",)
    """What a write to the status subresource cannot change."""

    def __init__(self, struct: normalise.Struct) -> None:
        self.has_status = any(field.name == "status" for field in struct.fields)
        self.struct = struct

    def check_name(self, name: str) -> tuple[str, ...]:
        """Complaints about what an object of this kind is called."""
        return names.check_subdomain(name)

    def default(self, obj: Json) -> None:
        """Fill in what the API's defaults say."""

    def prepare_create(self, obj: Json) -> None:
        """Set what a client cannot."""
        if self.has_status and not self.keeps_posted_status:
            obj["status"] = self.new_status(obj)
        if self.counts_generations:
            obj["metadata"]["generation"] = 1

    def new_status(self, obj: Json) -> Json:
        zero: Json = self.struct.zero()["status"]
        return zero

    def prepare_update(self, new: Json, old: Json) -> None:
        """Undo what a client cannot change, and count the change."""
        if self.has_status:
            _keep(new, old, "status")
        if self.counts_generations and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1

    def prepare_status(self, new: Json, old: Json) -> None:
        """Of a write to the status subresource, undo what is not status."""
        for name in self.status_keeps:
            _keep(new, old, name)

    def validate(self, obj: Json) -> Errors:
        """Complaints about a new object, its metadata aside."""
        return []

    def validate_update(self, new: Json, old: Json) -> Errors:
        """Complaints about a change; by default the new object must be good by itself."""
        return self.validate(new)

    def validate_status(self, new: Json, old: Json) -> Errors:
        return []

    def grace_s(self, obj: Json, asked_s: int | None) -> int | None:
        """Seconds that a deletion waits for someone to finish; None if objects of this kind go at once."""
        return None

    def may_vanish(self, obj: Json) -> bool:
        """May an object that is being deleted go once it has no finalizer?"""
        return True


def _keep(new: Json, old: Json, name: str) -> None:
    if name in old:
        new[name] = old[name]
    else:
        new.pop(name, None)
