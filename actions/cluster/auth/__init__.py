"""Authentication: kubeconfig, credentials, TLS, and the session made of them."""
