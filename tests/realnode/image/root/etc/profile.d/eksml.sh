# KubeRay starts Ray in a login shell. A worker's node says it has 120 CPUs: Ray would start as many processes at once.
export PATH=/opt/aws/neuron/bin:/opt/amazon/efa/bin:$PATH
export RAY_prestart_worker_first_driver=0 RAY_enable_worker_prestart=0 RAY_USAGE_STATS_ENABLED=0
