"""Ports of this machine that nobody uses, for servers of programs that have to be told one."""

from __future__ import annotations

import random
import socket

_PORTS = range(15_000, 32_000)
"""Below those that systems give to connections (Linux: from 32768), one of which could take a port before its server."""
_random = random.SystemRandom()  # hypothesis seeds the others alike in every process


def free_ports(count: int) -> list[int]:
    """So many different ports of 127.0.0.1."""
    found: list[int] = []
    for port in _random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        found.append(port)
    return found


def free_port() -> int:
    (port,) = free_ports(1)
    return port
