import json

from tools import coverage_report


def told(lines: int, of_lines: int, branches: int, of_branches: int) -> dict[str, dict[str, int]]:
    return {
        "summary": {
            "covered_lines": lines,
            "num_statements": of_lines,
            "covered_branches": branches,
            "num_branches": of_branches,
        }
    }


REPORT = json.dumps(
    {
        "files": {
            "src/windlass/engine/drainability/rules.py": told(8, 10, 1, 2),
            "src/windlass/engine/drainability/pdb_rules.py": told(8, 8, 0, 0),
            "src/windlass/engine/model/facts.py": told(5, 5, 0, 0),
            "src/windlass/clock.py": told(1, 2, 0, 0),
            "src/windlass/kube/__init__.py": told(0, 0, 0, 0),
            "src/windlass/web/server.py": told(0, 9, 0, 2),
            "src/windlass/tui/app.py": told(0, 9, 0, 0),
        }
    }
)


def test_lines_and_branches_are_summed_up_by_package() -> None:
    assert coverage_report.sum_up(REPORT)["engine.drainability"] == coverage_report.Share(17, 20)
    assert [*coverage_report.tell(REPORT)] == [
        " 50.0 %       2 lines and branches  clock",
        " 85.0 %      20 lines and branches  engine.drainability",
        "100.0 %       5 lines and branches  engine.model",
        " 85.2 %      27 lines and branches  all of these",
        "No test that was run is for: tui, web",
    ]
