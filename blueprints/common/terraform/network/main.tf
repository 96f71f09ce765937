data "aws_availability_zones" "available" {
  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"] # no local zones: EKS and FSx do not offer them
  }
}

locals {
  names = data.aws_availability_zones.available.names
  first = var.zone == "" ? local.names[0] : var.zone
  zones = concat([local.first], slice([for name in local.names : name if name != local.first], 0, 1))
}

module "vpc" {
  source  = "terraform-aws-modules/vpc/aws"
  version = "5.21.0"

  name = var.cluster_name
  cidr = var.vpc_cidr
  azs  = local.zones

  private_subnets = [for index in range(2) : cidrsubnet(var.vpc_cidr, 2, index)]
  public_subnets  = [for index in range(2) : cidrsubnet(var.vpc_cidr, 8, 240 + index)]

  enable_nat_gateway   = true
  single_nat_gateway   = true
  enable_dns_hostnames = true

  public_subnet_tags = {
    "kubernetes.io/role/elb" = 1
  }

  private_subnet_tags = {
    "kubernetes.io/role/internal-elb" = 1
  }
}

# GPU nodes start in the zone of the file system only: elsewhere each byte read would be paid for between zones.
resource "aws_ec2_tag" "node_subnet" {
  resource_id = module.vpc.private_subnets[0]
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name
}
