"""The Host header of an HTTP request: whether it names this machine.

A page from elsewhere can have its own name point to 127.0.0.1 (DNS rebinding) and then read what listens there without
a password. The browser still sends that name as `Host` (RFC 9110, section 7.2), which tells such requests apart.
"""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server that is bound to this name or address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def names_this_machine(host_header: str) -> bool:
    """Return whether a Host header, with a port or without one, names this machine by a loopback name or address."""
    bare_address = host_header.endswith("]")
    return is_loopback(host_header if bare_address else host_header.rsplit(":", 1)[0])
