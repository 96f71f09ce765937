output "vpc_id" {
  description = "The VPC."
  value       = module.vpc.vpc_id
}

output "vpc_cidr" {
  description = "Address range of the VPC."
  value       = var.vpc_cidr
}

output "private_subnet_ids" {
  description = "Subnets of the nodes, comma-separated."
  value       = join(",", module.vpc.private_subnets)
}

output "storage_subnet_id" {
  description = "The one subnet of the file system, in the zone of the GPU nodes."
  value       = module.vpc.private_subnets[0]
}
