"""`python -m testbed.infrastructure KUBECONFIG` provides infrastructure until it is ended."""

import asyncio
import sys
from pathlib import Path

from testbed.infrastructure import api, controller


async def main(kubeconfig: Path) -> None:
    async with api.Api(kubeconfig) as server:
        await controller.run(server)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
