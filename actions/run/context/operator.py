"""The person at this machine, as records name them."""

from __future__ import annotations

import getpass
import os
import socket

from actions.base.untrusted import one_line
from actions.run.state.records import Operator

_LONGEST_USER, _LONGEST_HOST = 64, 253


def present_operator(*, arn: str = "") -> Operator:
    """Return the user of this process and the name of this machine.

    Args:
        arn: Of the AWS identity, if it is known.
    """
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user that no file of accounts has
        user = str(os.getuid())
    host = one_line(socket.gethostname(), limit=_LONGEST_HOST)
    return Operator(one_line(user, limit=_LONGEST_USER), host, one_line(arn))
