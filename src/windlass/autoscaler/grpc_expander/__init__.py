"""gRPC expander client: asks an external expander (--expander=grpc) for the best options of a scale-up."""

import os

# gRPC writes to stderr in a format of its own, and reads this when it is imported. Failed calls are in windlass' log.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
