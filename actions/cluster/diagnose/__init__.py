"""The diagnosis of stuck workloads: from the evidence of a cluster to findings. Only `collect` talks to the cluster."""
