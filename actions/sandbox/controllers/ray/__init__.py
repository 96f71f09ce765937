"""KubeRay, the operator of RayClusters and RayJobs."""
