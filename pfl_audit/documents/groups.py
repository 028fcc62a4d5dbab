"""Groups of units of privacy that belong together: clients, vendors, corporate groups."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from pfl_audit.provider_identity import provider_identity


def join_groups(units: Iterable[str], stated: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return the group of every unit: groups that share a unit are one (connected components).

    Case and spaces of a group's name do not count. A unit without a group is its own, or belongs to the group that has
    its name, such as a parent company.

    Args:
        units: Units of privacy.
        stated: Unit to the groups that it is in; units without an entry are in none.

    Returns:
        Unit to the name of its group, in the order of ``units``: the smallest of the names in its component, or for a
        unit alone its own.
    """
    parents: dict[str, str] = {}
    names: defaultdict[str, set[str]] = defaultdict(set)

    def root(key: str) -> str:
        while parents[key] != key:
            parents[key] = key = parents[parents[key]]  # halves the path, so that long chains stay cheap
        return key

    for groups in stated.values():
        keys = [provider_identity(group) for group in groups]
        for key, group in zip(keys, groups, strict=True):
            parents.setdefault(key, key)
            names[key].add(group)
            parents[root(key)] = root(keys[0])
    smallest: dict[str, str] = {}
    for key, spellings in names.items():
        smallest[root(key)] = min(smallest.get(root(key), min(spellings)), *spellings)

    def group_of(unit: str) -> str:
        key = provider_identity(next(iter(stated.get(unit, ())), unit))
        return smallest[root(key)] if key in parents else unit

    return {unit: group_of(unit) for unit in units}


def clients_coincide(clients: Mapping[str, Collection[str]], members: Mapping[str, bool]) -> bool:
    """True where classes and clients coincide.

    No client has units of both classes, both classes have clients, and there are fewer clients than units. The clients
    were drawn then, and not the units. Where one class alone has clients nothing shows how they were drawn.

    Args:
        clients: Unit to the federated clients that hold its pages; units without a client are left out.
        members: Unit to whether it was trained on, of those of which that is known.
    """
    classes: defaultdict[str, set[bool]] = defaultdict(set)
    known = [unit for unit in members if clients.get(unit)]
    for unit in known:
        for client in clients[unit]:
            classes[client].add(members[unit])
    pure = all(len(sides) == 1 for sides in classes.values())
    return pure and len(set().union(*classes.values())) == 2 and len(classes) < len(known)
