"""Values that are looked up again and again, and are too large to be hashed each time."""


class HashedOnce:
    """A frozen dataclass that is compared by value, with `eq=False` and a field `_hash` that is computed once.

    Equal ones are mostly the same object, and others mostly differ in their hash: whole values are compared seldom.
    """

    __slots__ = ()

    _hash: int

    def _key(self) -> tuple[object, ...]:
        """All that makes a difference."""
        raise NotImplementedError

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self._key()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(other) is type(self) and self._hash == other._hash and self._key() == other._key()
