output "node_group_name" {
  description = "The node group."
  value       = var.node_group_name

  depends_on = [module.nodes]
}

output "node_count" {
  description = "Number of nodes."
  value       = tostring(var.node_count)

  depends_on = [module.nodes]
}
