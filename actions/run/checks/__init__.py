"""The checks of a check stage: of the cluster, the account, the internet, a volume, this machine."""
