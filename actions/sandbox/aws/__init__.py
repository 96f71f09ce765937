"""The few AWS calls that a console makes of a cluster's account, answered for the sandbox."""
