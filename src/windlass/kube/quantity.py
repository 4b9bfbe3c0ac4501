"""Quantities as the wire spells them: `windlass.quantity`, which the engine's device selectors read too."""

from windlass.quantity import ACCEPTED, INT64_MAX, MILLI, NANO, ZERO, Quantity, parse, read, saturate

__all__ = ["ACCEPTED", "INT64_MAX", "MILLI", "NANO", "ZERO", "Quantity", "parse", "read", "saturate"]
