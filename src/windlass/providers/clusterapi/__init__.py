"""Node groups of Cluster API: MachineDeployments, MachineSets and MachinePools of a management cluster.

Lives here: how groups are found and read (`groups.py`, and a file for each thing that they say), how they are changed
(`scaling.py`), and what keeps both current (`provider.py`, the file to begin with). Never here: what ought to be done.
"""

from windlass.providers.clusterapi.config import Config
from windlass.providers.clusterapi.provider import Provider

__all__ = ["Config", "Provider"]
