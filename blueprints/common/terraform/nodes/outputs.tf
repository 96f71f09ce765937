output "node_group_name" {
  description = "The node group."
  value       = aws_eks_node_group.this.node_group_name
}

output "node_count" {
  description = "Number of nodes."
  value       = tostring(aws_eks_node_group.this.scaling_config[0].desired_size)
}
