"""What looks for a check stage: at the cluster, the account, the internet, a volume, this machine."""
