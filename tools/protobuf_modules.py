"""The `_pb2` modules of the gRPC expander, generated from their .proto files with grpcio-tools."""

import subprocess
import sys
from pathlib import Path

from tools import source_analysis

_SOURCES = source_analysis.ROOT / "src"
FOLDER = _SOURCES / "windlass/autoscaler/grpc_expander"


def write() -> list[Path]:
    """Generate the modules anew; return those that changed."""
    before = {path: path.read_text("utf-8") for path in FOLDER.glob("*_pb2.py*")}
    return [path for path in generate(_SOURCES) if path.read_text("utf-8") != before.get(path)]


def generate(folder: Path) -> list[Path]:
    """Generate modules and their types below a folder, for import from there."""
    protos = sorted(FOLDER.glob("*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{_SOURCES}", f"--python_out={folder}"]
    subprocess.run([*command, f"--pyi_out={folder}", *map(str, protos)], check=True)
    inner = folder / FOLDER.relative_to(_SOURCES)
    return [inner / f"{proto.stem}_pb2{suffix}" for proto in protos for suffix in (".py", ".pyi")]
