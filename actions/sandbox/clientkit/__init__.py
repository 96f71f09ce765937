"""The client of the sandbox's API that controllers and the kubelet share: kinds, caches, the reconcile loop."""
