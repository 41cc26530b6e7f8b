"""A Kerberos server (Debian's `krb5-kdc`) of the test's own, with a realm and keytabs in a directory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from group_coordinator.proving.embedded_kafka.broker import free_port
from tests.waiting import wait_until

REALM = "GROUPS.TEST"
USER = f"watcher@{REALM}"
_PROGRAMS = {name: shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") for name in (
    "kadmin.local", "kdb5_util", "kinit", "krb5kdc",
)}  # fmt: skip
LACKING = [name for name, path in _PROGRAMS.items() if path is None]
"""Programs that are not installed here (Debian's packages `krb5-kdc`, `krb5-admin-server`, `krb5-user`)."""
_CONFIG = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
[realms]
    {realm} = {{
        kdc = 127.0.0.1:{port}
    }}
"""
_KDC_CONFIG = """\
[realms]
    {realm} = {{
        database_name = {directory}/principal
        key_stash_file = {directory}/stash
        kdc_listen = 127.0.0.1:{port}
        kdc_tcp_listen = 127.0.0.1:{port}
    }}
"""


class Kdc(NamedTuple):
    """A running server."""

    directory: Path

    @property
    def config(self) -> Path:
        return self.directory / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """What programs need that are to ask this server; they have no ticket."""
        return {
            **os.environ,
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.directory / 'no-tickets'}",
        }

    def run(self, program: str, *arguments: str) -> None:
        path = _PROGRAMS[program]
        assert path is not None
        subprocess.run([path, *arguments], env=self.environment, check=True, capture_output=True, timeout=60)

    def keytab(self, principal: str) -> Path:
        """Make a principal; each of its keytabs has new keys, and the one before is wrong from then on."""
        path = self.directory / f"{len(list(self.directory.iterdir()))}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey +requires_preauth {principal}")
        self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}")
        return path


@contextmanager
def kdc(directory: Path) -> Iterator[Kdc]:
    """A server that is asked at a port of its own."""
    started = Kdc(directory)
    values = {"realm": REALM, "port": free_port(), "directory": directory}
    started.config.write_text(_CONFIG.format(**values))
    (directory / "kdc.conf").write_text(_KDC_CONFIG.format(**values))
    started.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-this-test")
    program = _PROGRAMS["krb5kdc"]
    assert program is not None
    with (directory / "kdc.log").open("w") as log:
        server = subprocess.Popen([program, "-n", "-r", REALM], env=started.environment, stdout=log, stderr=log)
    try:
        keytab = started.keytab("probe")

        def answers() -> bool:
            assert server.poll() is None, (directory / "kdc.log").read_text()
            try:
                started.run("kinit", "-c", f"FILE:{directory / 'probe'}", "-k", "-t", str(keytab), "probe")
            except subprocess.CalledProcessError:
                return False
            return True

        wait_until(answers, 30.0)
        yield started
    finally:
        server.kill()
        server.wait()
