"""Permissions: what the operator takes itself, whichever controllers it runs. Each of these has a list of its own."""

from windlass.kube import rights
from windlass.kube.rights import Account, Rights

ACCOUNT = Account("windlass-operator", "windlass-system")

OPERATOR = Rights(
    "operator",
    f"`windlass operator --leader-elect-namespace={ACCOUNT.namespace}`, whichever controllers it runs; their own"
    " files come besides.",
    ACCOUNT,
    (rights.lease(ACCOUNT.namespace, "windlass-operator"),),
)
