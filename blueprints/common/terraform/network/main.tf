data "aws_availability_zones" "available" {
  exclude_zone_ids = ["use1-az3", "usw1-az2", "cac1-az3"] # EKS takes no subnets there

  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"] # no local zones: EKS and FSx do not offer them
  }

  lifecycle {
    postcondition {
      condition     = contains(concat(["", "auto"], self.names, self.zone_ids), var.zone)
      error_message = "${var.zone} is not a zone of ${var.region} that EKS can use. Those are ${join(", ", self.names)}."
    }
  }
}

locals {
  names = data.aws_availability_zones.available.names
  by_id = zipmap(data.aws_availability_zones.available.zone_ids, local.names)
  first = contains(["", "auto"], var.zone) ? local.names[0] : lookup(local.by_id, var.zone, var.zone)
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

  # Karpenter starts GPU nodes in the zone of the file system only: elsewhere each byte read would be paid for between
  # zones. A tag of the subnet itself: an aws_ec2_tag beside it is removed by the next apply.
  private_subnet_tags_per_az = {
    (local.zones[0]) = { "karpenter.sh/discovery" = var.cluster_name }
  }
}

# Image layers and exports go to S3 past the NAT gateway, which costs by the gigabyte. A gateway endpoint is free.
resource "aws_vpc_endpoint" "s3" {
  vpc_id            = module.vpc.vpc_id
  service_name      = "com.amazonaws.${var.region}.s3"
  vpc_endpoint_type = "Gateway"
  route_table_ids   = module.vpc.private_route_table_ids

  tags = { Name = "${var.cluster_name}-s3" }
}

# Where rules ask for a record of the traffic. The role may not make the group: late records would bring it back after a
# teardown.
resource "aws_flow_log" "this" {
  count = var.flow_logs ? 1 : 0

  vpc_id          = module.vpc.vpc_id
  traffic_type    = "ALL"
  iam_role_arn    = aws_iam_role.flow_logs[0].arn
  log_destination = aws_cloudwatch_log_group.flow_logs[0].arn

  depends_on = [aws_iam_role_policy.flow_logs]
}

resource "aws_cloudwatch_log_group" "flow_logs" {
  count = var.flow_logs ? 1 : 0

  name              = "/aws/vpc-flow-log/${module.vpc.vpc_id}"
  retention_in_days = var.flow_log_days
  kms_key_id        = var.kms_key_arn == "" ? null : var.kms_key_arn
}

resource "aws_iam_role" "flow_logs" {
  count = var.flow_logs ? 1 : 0

  name_prefix = "${substr(var.cluster_name, 0, 29)}-traffic-"
  description = "Flow logs of the VPC of ${var.cluster_name}"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "vpc-flow-logs.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy" "flow_logs" {
  count = var.flow_logs ? 1 : 0

  name = "writes"
  role = aws_iam_role.flow_logs[0].name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"]
      Resource = "${aws_cloudwatch_log_group.flow_logs[0].arn}:*"
    }]
  })
}
