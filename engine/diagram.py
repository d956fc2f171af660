"""Machines and policies as text that draws: Mermaid, Graphviz, and tables in Markdown.

Drawn from the rows that the engine steps and the tables that it looks up, so a picture
cannot say anything else. States and triggers are identifiers of ours, and the keys of a
policy are fixed: nothing in a picture comes from a caller or from a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple

from turnout.engine.policy import DEFAULT_POLICY, EVICTED_AS, Action, Policy
from turnout.engine.selection import FILTERS, ORDERS
from turnout.machines import turn as turn_machine
from turnout.machines.catalog import MACHINES
from turnout.machines.stepping import Arc, Definition
from turnout.machines.vocabulary import RoutingFallbackReason, TurnState

REWRITE: Final = "turnout diagram --write diagrams"
"""The command that writes the gallery."""

ABOUT: Final[Mapping[str, str]] = {
    "turn": """\
One request of a session. A target is asked in `probing`; whatever comes of it, a success too, is
`classified`. A target that cannot serve this session is `evicted`, one that could not answer just now
is `skipped`; in both cases the next one is asked, if there is one. The note says which kinds of error
lead to which trigger under the default policy.""",
    "standing": """\
What a session remembers of one target: it outlives the turn. There is no arrow for `unavailable`: it
never touches the session.""",
    "probe": """\
Asking one target within a turn, with its own retries and its own correction. A refusal is corrected if
it was of something that we had added, else waited for if it may pass and the budget allows, else the
probe is settled and the turn classifies what it says.""",
    "health": """\
How a target is, for all sessions and processes, where its client sets a `breaker`: the only memory that
`unavailable` has. In `open` it cools and every turn passes it over; in `half_open` one turn tries it.
`tripped`: enough probes in a row have failed. `due`: its time is up. `on_trial`: it is told by the turn that
tries it. `returned`: that turn came to neither an answer nor an error that counts. `lapsed`: nothing was
heard of it for `max_cool_secs`.""",
    "selection": """\
Who may be probed in a turn. The ladder is put in this turn's order, and each target is held against the
rules; the first that matches is why it is passed over. If none is left and nobody was probed yet, one is
probed all the same.""",
    "policy": """\
What a kind of error does by default. A route changes entries of this table by its `on` keys, and
`turnout diagram policy --deployment FILE --route ID` draws what it then is.""",
}


# -- machines


def mermaid(definition: Definition, policy: Policy | None = None) -> str:
    """A machine as a Mermaid state diagram; of the turn, with the policy as a note.

    Args:
        policy: drawn with the turn machine; the other machines have none.
    """
    lines = states(definition, {(e.source, e.dest): e.labels for e in _edges(definition.arcs)})
    if policy is not None and definition.name == turn_machine.DEFINITION.name:
        lines += [f"    note right of {TurnState.CLASSIFIED}"]
        lines += [f"        {trigger} on {', '.join(cases)}" for trigger, cases in _causes(policy).items()]
        lines += ["    end note"]
    return _text(lines)


def states(definition: Definition, words: Mapping[tuple[str, str], Sequence[str]]) -> list[str]:
    """The lines of a machine's Mermaid state diagram.

    Args:
        words: what its arrows say, fit for Mermaid, by source and dest; one that is not named says nothing.
    """
    lines = ["stateDiagram-v2", f"    [*] --> {definition.initial}"]
    for edge in _edges(definition.arcs):
        said = "<br/>".join(words.get((edge.source, edge.dest), ()))
        lines.append(f"    {edge.source} --> {edge.dest}" + (f": {said}" if said else ""))
    return lines + [f"    {state} --> [*]" for state in definition.final]


def dot(definition: Definition, policy: Policy | None = None) -> str:
    """A machine as a Graphviz graph; of the turn, with the policy's kinds of error before it."""
    lines = [f"digraph {definition.name} {{", "    rankdir=LR", "    node [shape=box style=rounded]"]
    lines += ["    start [shape=point]", f"    start -> {definition.initial}"]
    lines += [f"    {state} [peripheries=2]" for state in definition.final]
    for edge in _edges(definition.arcs):
        label = "\\n".join(edge.labels)
        lines += [f'    {edge.source} -> {edge.dest} [label="{label}"]']
    if policy is not None and definition.name == turn_machine.DEFINITION.name:
        told = "\\l".join(f"{trigger} on {', '.join(cases)}" for trigger, cases in _causes(policy).items())
        lines.append(f'    policy [shape=note label="{told}\\l"]')
        lines.append(f"    policy -> {TurnState.CLASSIFIED} [style=dashed arrowhead=none]")
    return _text([*lines, "}"])


def table(definition: Definition) -> str:
    """A machine as a Markdown table, a line for each row."""
    sources: dict[tuple[str, str, str], list[str]] = {}
    for arc in definition.arcs:
        sources.setdefault((arc.trigger, arc.dest, arc.guard), []).append(arc.source)
    return _markdown(
        ("trigger", "source", "dest", "condition"),
        (
            (_code(trigger), ", ".join(map(_code, source)), _code(dest), _condition(guard))
            for (trigger, dest, guard), source in sources.items()
        ),
    )


class _Edge(NamedTuple):
    """Every way from one state to another."""

    source: str
    dest: str
    labels: tuple[str, ...]


def _edges(arcs: Sequence[Arc]) -> list[_Edge]:
    """The arcs, with those between the same two states drawn as one, in the order of the rows."""
    labels: dict[tuple[str, str], list[str]] = {}
    for arc in arcs:
        condition = _condition(arc.guard)
        label = f"{arc.trigger} [{condition}]" if condition else arc.trigger
        labels.setdefault((arc.source, arc.dest), []).append(label)
    return [_Edge(source, dest, tuple(several)) for (source, dest), several in labels.items()]


def _condition(guard: str) -> str:
    return f"unless {guard[1:]}" if guard.startswith("!") else guard


# -- policies


def policy_mermaid(policy: Policy = DEFAULT_POLICY) -> str:
    """A policy as a Mermaid flow chart: kind of error, action, trigger, and the state it leads to."""
    lines = ["flowchart LR"]
    lines += [
        f"    kind_{e.case}[{e.case}] -- {e.action} --> {e.trigger}([{e.trigger}])" for e in _entries(policy)
    ]
    lines += [f"    {trigger} --> state_{state}[[{state}]]" for trigger, state in _ways(policy)]
    return _text(lines)


def policy_dot(policy: Policy = DEFAULT_POLICY) -> str:
    """A policy as a Graphviz graph."""
    lines = ["digraph policy {", "    rankdir=LR", "    node [shape=box]"]
    lines += [f'    {e.case}_kind [label="{e.case}"]' for e in _entries(policy)]
    lines += [f"    {trigger} [style=rounded]" for trigger, _ in _ways(policy)]
    lines += [f"    {state} [peripheries=2]" for state in dict.fromkeys(state for _, state in _ways(policy))]
    lines += [f'    {e.case}_kind -> {e.trigger} [label="{e.action}"]' for e in _entries(policy)]
    lines += [f"    {trigger} -> {state}" for trigger, state in _ways(policy)]
    return _text([*lines, "}"])


def policy_table(policy: Policy = DEFAULT_POLICY) -> str:
    """A policy as a Markdown table."""
    return _markdown(
        ("kind", "action", "trigger", "state"),
        ((_code(e.case), _code(e.action), _code(e.trigger), _code(e.state)) for e in _entries(policy)),
    )


class _Entry(NamedTuple):
    """One entry of a policy and where it leads."""

    case: str
    action: Action
    trigger: str
    state: str


def _entries(policy: Policy) -> list[_Entry]:
    leads_to = {
        arc.trigger: arc.dest for arc in turn_machine.DEFINITION.arcs if arc.source == TurnState.CLASSIFIED
    }
    triggers = ((case, action, _trigger(case, action)) for case, action in policy.table.items())
    return [_Entry(case, action, trigger, leads_to[trigger]) for case, action, trigger in triggers]


def _trigger(case: str, action: Action) -> str:
    if action is Action.EVICT:
        return str(EVICTED_AS[case])
    return str(RoutingFallbackReason.UNAVAILABLE) if action is Action.SKIP else "rejected"


def _ways(policy: Policy) -> list[tuple[str, str]]:
    """Each trigger that the policy fires, with the state it leads to."""
    return list(dict.fromkeys((e.trigger, e.state) for e in _entries(policy)))


def _causes(policy: Policy) -> dict[str, list[str]]:
    """Each trigger that the policy fires, with the cases that it is fired on."""
    return {
        trigger: [e.case for e in _entries(policy) if e.trigger == trigger] for trigger, _ in _ways(policy)
    }


# -- who may be probed


def selection_mermaid() -> str:
    """The rules of a choice as a Mermaid flow chart."""
    lines = ["flowchart TD", f"    order[{_SEP.join(ORDERS)}] --> {FILTERS[0].why}"]
    for rule, following in zip(FILTERS, [*(rule.why for rule in FILTERS[1:]), "probed"], strict=True):
        lines += [f"    {rule.why}{{{rule.why}?}} -- no --> {following}", f"    {rule.why} -- yes --> over"]
    lines += ["    probed([probed])", "    over[passed over] -. all are .-> last{{last resort}}"]
    lines += [f"    last -- {_last_resort()} --> probed"]
    return _text(lines)


def selection_dot() -> str:
    """The rules of a choice as a Graphviz graph."""
    lines = ["digraph selection {", "    node [shape=box style=rounded]"]
    lines += [f'    order [label="{_SEP.join(ORDERS)}" shape=box style=solid]', "    probed [peripheries=2]"]
    lines += ['    over [label="passed over"]', f"    order -> {FILTERS[0].why}"]
    for rule, following in zip(FILTERS, [*(rule.why for rule in FILTERS[1:]), "probed"], strict=True):
        lines += [f"    {rule.why} [shape=diamond style=solid]"]
        lines += [f'    {rule.why} -> {following} [label="no"]', f'    {rule.why} -> over [label="yes"]']
    lines += [f'    over -> probed [style=dashed label="all are: {_last_resort()}"]']
    return _text([*lines, "}"])


def selection_table() -> str:
    """The rules of a choice as a Markdown table, in the order in which they are asked."""
    return _markdown(
        ("passed over as", "keys", "as last resort"),
        ((_code(r.why), ", ".join(map(_code, r.keys)), _named(r.survivor)) for r in FILTERS),
    )


_SEP: Final = ", then "


def _last_resort() -> str:
    return ", else ".join(_named(rule.survivor) for rule in reversed(FILTERS))


def _named(survivor: Callable[..., object]) -> str:
    return "the " + survivor.__name__.replace("_", " ")


# -- the gallery


def gallery() -> dict[str, str]:
    """The files of the folder `diagrams`: name to content."""
    pictures = {name: mermaid(m.definition, DEFAULT_POLICY) for name, m in MACHINES.items()}
    pictures |= {"selection": selection_mermaid(), "policy": policy_mermaid()}
    tables = {name: table(m.definition) for name, m in MACHINES.items()}
    tables |= {"selection": selection_table(), "policy": policy_table()}
    sections = (
        f"## {n.capitalize()}\n\n{ABOUT[n]}\n\n```mermaid\n{pictures[n]}```\n\n{tables[n]}" for n in pictures
    )
    opening = f"# Diagrams\n\nDrawn from the rows that the engine steps, by `{REWRITE}` and never by hand.\n"
    files = {f"{name}.mmd": picture for name, picture in pictures.items()}
    return files | {"README.md": "\n".join(chain([opening], sections))}


# -- text


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return _text(f"| {' | '.join(cells)} |" for cells in lines)


def _code(word: str) -> str:
    return f"`{word}`"


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines) + "\n"
