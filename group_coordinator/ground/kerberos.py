"""Logins by Kerberos (SASL/GSSAPI): with a keytab, or with the ticket that kinit has got.

Both libraries that speak to Kafka from Python take the default credentials of their process. The Kerberos library gets
those, and renews them from the keytab. So a process logs in as one principal.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping

from group_coordinator.ground.errors import ExpectedError

MECHANISM = "GSSAPI"
KEYTAB, PRINCIPAL = "sasl.kerberos.keytab", "sasl.kerberos.principal"
TICKET_CACHE = "sasl.kerberos.ticket.cache"
OWN_PROPERTIES = frozenset({KEYTAB, PRINCIPAL, TICKET_CACHE})
"""What is used here, and no library gets. The first two have librdkafka's names."""
NOT_INSTALLED = "Kerberos needs the extra kerberos (pip install gssapi, with Kerberos' development files)."
_OWN_CACHE = "MEMORY:group-coordinator"
_REMEDIES = (
    "check keyTab and principal in sasl.jaas.config, and /etc/krb5.conf",
    "run kinit, or name a keytab in sasl.jaas.config (useKeyTab=true)",
)
_lock = threading.Lock()
_logged_in: list[tuple[str | None, ...]] = []


class KerberosError(ExpectedError):
    """There is no ticket. The message is a sentence without a secret."""


def log_in(properties: Mapping[str, str]) -> None:
    """See to it that this process has a ticket. `properties` are those of `librdkafka_properties`. Raises
    KerberosError."""
    try:
        import gssapi
    except ImportError:
        raise KerberosError(NOT_INSTALLED) from None
    identity = keytab, principal, cache = tuple(properties.get(name) for name in (KEYTAB, PRINCIPAL, TICKET_CACHE))
    with _lock:
        if _logged_in and _logged_in[0] != identity:
            raise KerberosError("One process can log in by Kerberos as one principal alone: start one for each.")
        if keytab is not None:
            os.environ["KRB5_CLIENT_KTNAME"], os.environ["KRB5CCNAME"] = f"FILE:{keytab}", _OWN_CACHE
        elif cache is not None:
            os.environ["KRB5CCNAME"] = f"FILE:{cache}"
        try:
            name = None if principal is None else gssapi.Name(principal, gssapi.NameType.kerberos_principal)
            gssapi.Credentials(name=name, usage="initiate", mechs=[gssapi.MechType.kerberos]).inquire()
        except gssapi.exceptions.GSSError as problem:
            who = "" if principal is None else f" for '{principal}'"
            said = problem.get_all_statuses(problem.min_code, False)[-1]
            raise KerberosError(f"Kerberos gives no ticket{who} ({said}): {_REMEDIES[keytab is None]}.") from None
        _logged_in[:] = [identity]
