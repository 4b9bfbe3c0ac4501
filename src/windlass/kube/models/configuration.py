"""Configuration: ConfigMaps and Secrets."""

from __future__ import annotations

from windlass.kube.models.meta import Object


class ConfigMap(Object, frozen=True):
    data: dict[str, str] | None = None
    binary_data: dict[str, bytes] | None = None
    immutable: bool | None = None


class Secret(Object, frozen=True):
    type: str | None = None
    data: dict[str, bytes] | None = None
    """Decoded: the API spells them in base64."""
    immutable: bool | None = None

    def __repr__(self) -> str:
        """Without what is secret."""
        return f"Secret({self.meta.key}, {sorted(self.data or ())})"
