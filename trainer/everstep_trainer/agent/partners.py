"""Which member keeps copies of another's snapshots: one that does not fail with it. Pure."""

from collections.abc import Callable

from everstep_contract.identity import Seat

Domain = Callable[[Seat], str]
"""What a seat fails together with."""


def node(seat: Seat) -> str:
    """Members of one node are lost together."""
    return seat.member.node


def own_life(seat: Seat) -> str:
    """Each member fails alone: where all share a node, a copy at least survives a killed member."""
    return seat.member.incarnation


def partner(seats: tuple[Seat, ...], incarnation: str, domain: Domain = node) -> Seat | None:
    """Who keeps what this member has for itself; None if nobody else fails apart from it.

    The seats of a domain stand together in a ring, and the partner is as far ahead as the largest
    domain is wide: everybody keeps the copies of one member. With one member a node it is the next
    seat. Where a domain has more than half of all seats, the others share its members evenly.

    Args:
        seats: All of one order.
        incarnation: Whose partner; None is the answer if it has no seat.
        domain: Of a seat; equal for seats that are lost together.
    """
    domains: dict[str, list[Seat]] = {}
    for seat in seats:
        domains.setdefault(domain(seat), []).append(seat)
    ring = [seat for together in domains.values() for seat in together]
    mine = next((at for at, seat in enumerate(ring) if _is(seat, incarnation)), None)
    if mine is None or len(domains) == 1:
        return None
    widest = max(map(len, domains.values()))
    ahead = ring[(mine + widest) % len(ring)]
    if domain(ahead) != domain(ring[mine]):
        return ahead
    others = [seat for seat in ring if domain(seat) != domain(ring[mine])]
    return others[mine % len(others)]


def _is(seat: Seat, incarnation: str) -> bool:
    return seat.member.incarnation == incarnation
