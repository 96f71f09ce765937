"""The few AWS calls that a console makes of a cluster's account, answered for the sandbox."""

from actions.sandbox.cloud.application import create_app

__all__ = ["create_app"]
