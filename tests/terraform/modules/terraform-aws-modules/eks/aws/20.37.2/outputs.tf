output "cluster_name" { value = aws_eks_cluster.this[0].name }
output "cluster_endpoint" { value = aws_eks_cluster.this[0].endpoint }
output "cluster_certificate_authority_data" { value = aws_eks_cluster.this[0].certificate_authority[0].data }
output "node_security_group_id" { value = aws_security_group.node[0].id }
output "eks_managed_node_groups" { value = module.eks_managed_node_group }
