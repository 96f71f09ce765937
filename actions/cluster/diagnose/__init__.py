"""Why a workload is stuck: from the evidence of a cluster to findings. Only `collect` asks the cluster."""
