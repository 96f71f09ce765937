"""Which cluster, as which user: kubeconfig, credentials, TLS and the session made of them."""
