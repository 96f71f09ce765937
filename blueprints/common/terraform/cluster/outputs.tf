output "cluster_name" {
  description = "Name of the cluster."
  value       = module.eks.cluster_name
}

output "cluster_endpoint" {
  description = "Address of the Kubernetes API."
  value       = module.eks.cluster_endpoint
}

output "node_security_group_id" {
  description = "Security group of all nodes."
  value       = module.eks.node_security_group_id
}

output "node_role_name" {
  description = "Role of the nodes that Karpenter starts; without it, of the core nodes."
  value       = var.karpenter ? module.karpenter.node_iam_role_name : module.eks.eks_managed_node_groups["core"].iam_role_name
}
