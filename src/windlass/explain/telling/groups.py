"""A group, for people."""

from collections.abc import Iterator

from windlass.explain import amounts
from windlass.explain.groups import GroupAccount, Source, TemplateAccount
from windlass.explain.telling import words
from windlass.explain.telling.words import PLAIN, Tones


def tell(group: GroupAccount, tones: Tones = PLAIN) -> Iterator[str]:
    """Everything, most important first."""
    yield f"{tones.strong(f'group {group.id}')}  {_introduce(group)}"
    yield ""
    yield from _tell_state(group, tones)
    yield from _tell_next(group, tones)
    yield from _tell_past(group)
    yield ""
    yield from _tell_template(group.template, tones)


def _introduce(group: GroupAccount) -> str:
    price = f" · {group.price_per_hour:g} per node and hour" if group.price_per_hour is not None else ""
    whole = " · all or nothing" if group.goes_whole else ""
    return f"{words.count(group.target_size, 'node')}, {group.min_size} to {group.max_size}{price}{whole}"


def _tell_state(group: GroupAccount, tones: Tones) -> Iterator[str]:
    state = say_state(group)
    yield (tones.good if state == "healthy" else tones.bad)(f"It is {state}.")
    parts = [f"{group.ready} ready"]
    parts += [f"{group.unready} not ready"] if group.unready else []
    parts += [f"{group.not_started} starting"] if group.not_started else []
    if group.unregistered:
        late = f" ({group.long_unregistered} for too long)" if group.long_unregistered else ""
        parts.append(f"{words.count(group.unregistered, 'instance')} without a node{late}")
    parts += [f"{group.deleting} on their way out"] if group.deleting else []
    lacking = f"; {group.lacking} should be ready and are not" if group.lacking else ""
    yield f"Nodes: {', '.join(parts)}{lacking}."
    if group.replicas_owner:
        effect = "It is neither raised nor lowered" if group.is_left_alone else "It is scaled in vain"
        yield tones.bad(f"{effect}: {group.replicas_owner}.")
    if group.backoff is not None:
        back = group.backoff
        said = f"{back.code}: {back.message}" if back.message else back.code
        yield f"It failed {words.ago(back.failed_s, group.at_s)}: {said}."
        yield f"It is left alone {words.until(back.until_s, group.at_s)}."
    if group.upcoming is not None:
        coming = group.upcoming
        by = f", expected by {words.clock(coming.expected_by_s)}" if coming.expected_by_s is not None else ""
        yield f"{words.count(coming.nodes, 'node')} on the way{by}."
    if group.wrong_size_since_s is not None:
        yield f"Its size has been wrong {words.since(group.wrong_size_since_s, group.at_s)}."
    for error in group.errors:
        yield tones.bad(f"An instance could not be created: {error}")


def say_state(group: GroupAccount) -> str:
    """In a word or two."""
    if group.is_left_alone:
        return "left alone"
    if group.backoff is not None:
        return "backing off"
    if not group.is_healthy:
        return "unhealthy"
    return "rolling out" if group.is_rolling_out else "healthy"


def _tell_next(group: GroupAccount, tones: Tones) -> Iterator[str]:
    if group.grows_to is not None:
        yield tones.note(f"The next loop raises it to {words.count(group.grows_to, 'node')}.")
    if group.drains:
        yield tones.note(f"The next loop begins to remove {words.list_up(group.drains)}.")
    if group.unneeded:
        yield f"Unneeded: {words.list_up(group.unneeded)}."


def _tell_past(group: GroupAccount) -> Iterator[str]:
    past = {"grew": group.added_s, "lost a node to scale-down": group.deleted_s, "failed a removal": group.failed_s}
    told = [f"{what} {words.ago(then_s, group.at_s)}" for what, then_s in past.items() if then_s is not None]
    if told:
        yield f"Lately it {', '.join(told)}."


def _tell_template(template: TemplateAccount, tones: Tones) -> Iterator[str]:
    if template.source is Source.NOWHERE:
        yield tones.bad("Nobody knows what a new node would look like: it has no node, and the provider does not say.")
        return
    example = f" ({template.example})" if template.example else ""
    yield tones.faint(f"A new node, as told by {template.source}{example}:")
    spelled = amounts.spell_all(tuple(template.allocatable.items()))
    rows = [
        (f"  {resource}", total, _say_taken(template, resource), _say_left(template, resource))
        for resource, total in spelled.items()
    ]
    yield from words.table(("  RESOURCE", "ALLOCATABLE", "ITS OWN PODS", "FREE"), rows, tones)
    if template.pods:
        yield f"  it starts with {words.list_up(template.pods)}"
    for taint in template.taints:
        yield f"  taint {taint}"
    for key, value in sorted(template.labels.items()):
        yield f"  label {key}={value}"


def _say_taken(template: TemplateAccount, resource: str) -> str:
    taken = _taken(template, resource)
    return amounts.spell(resource, taken) if taken else ""


def _say_left(template: TemplateAccount, resource: str) -> str:
    return amounts.spell(resource, template.allocatable[resource] - _taken(template, resource))


def _taken(template: TemplateAccount, resource: str) -> int:
    return len(template.pods) if resource == "pods" else template.taken.get(resource, 0)
