"""The loop is one ordered tuple of steps, and each field of its state is written by exactly one of them."""

import ast
import inspect
from collections import defaultdict
from dataclasses import fields
from itertools import pairwise
from types import FunctionType

from windlass.engine import loop
from windlass.engine.loop_state import LoopState
from windlass.engine.scale_up import pod_list

INPUTS = {"inputs", "timer", "rng", "searches", "queue"}


def written_fields(step: FunctionType) -> set[str]:
    """Fields of the state that a step assigns to."""
    targets = [node for node in ast.walk(ast.parse(inspect.getsource(step))) if isinstance(node, ast.Attribute)]
    return {
        node.attr
        for node in targets
        if isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name) and node.value.id == "state"
    }


def test_each_field_of_the_state_is_written_by_exactly_one_step() -> None:
    steps_of = defaultdict(list)
    for step in loop.STEPS:
        assert isinstance(step, FunctionType)
        for field in written_fields(step):
            steps_of[field].append(step.__name__)
    assert {field: steps for field, steps in steps_of.items() if len(steps) > 1} == {}
    assert steps_of.keys() == {field.name for field in fields(LoopState)} - INPUTS


def test_the_state_documents_the_step_that_writes_each_field() -> None:
    (state,) = ast.parse(inspect.getsource(LoopState)).body
    assert isinstance(state, ast.ClassDef)
    documented = {
        ast.unparse(field.target): str(ast.literal_eval(text.value)).split(":")[0]
        for field, text in pairwise(state.body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
    for step in loop.STEPS:
        assert isinstance(step, FunctionType)
        for field in written_fields(step):
            assert documented[field] == step.__name__


def test_no_step_and_no_processor_comes_twice() -> None:
    assert len(set(loop.STEPS)) == len(loop.STEPS)
    assert len(set(pod_list.POD_LIST_PROCESSORS)) == len(pod_list.POD_LIST_PROCESSORS)
