from windlass.kube import unstructured

READY = {"type": "Ready", "status": "True", "reason": "Up", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}
OTHER = {"type": "Other", "status": "False"}
NOW_S = 1_794_733_665.0


def test_a_new_condition_goes_behind_the_others() -> None:
    (_, new) = unstructured.set_condition([OTHER], "Ready", False, "Down", "no power", NOW_S, observed_generation=3)

    assert new == {
        "type": "Ready",
        "status": "False",
        "reason": "Down",
        "message": "no power",
        "observedGeneration": 3,
        "lastTransitionTime": "2026-11-15T09:07:45Z",
    }


def test_the_transition_time_moves_with_the_status_only() -> None:
    same = unstructured.set_condition([READY, OTHER], "Ready", True, "StillUp", "words", NOW_S)
    assert same[0]["lastTransitionTime"] == "2020-01-01T00:00:00Z"
    assert same[0]["reason"] == "StillUp"
    assert same[1] is OTHER

    for status, spelled in ((False, "False"), (None, "Unknown")):
        (changed, _) = unstructured.set_condition([READY, OTHER], "Ready", status, "R", "", NOW_S)
        assert (changed["status"], changed["lastTransitionTime"]) == (spelled, "2026-11-15T09:07:45Z")


def test_a_condition_without_a_time_gets_one() -> None:
    (found,) = unstructured.set_condition([OTHER], "Other", False, "R", "", NOW_S)

    assert found["lastTransitionTime"] == "2026-11-15T09:07:45Z"


def test_conditions_are_found_and_dropped_by_type() -> None:
    assert unstructured.find_condition([READY, OTHER], "Other") is OTHER
    assert unstructured.find_condition(None, "Other") is None
    assert unstructured.is_condition_true([READY, OTHER], "Ready")
    assert not unstructured.is_condition_true([READY, OTHER], "Other")
    assert unstructured.remove_condition([READY, OTHER], "Ready") == [OTHER]
