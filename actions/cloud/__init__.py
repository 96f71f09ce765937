"""AWS: session, EKS, tokens."""
