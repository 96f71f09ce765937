# Stands in for terraform-aws-modules/vpc/aws 5.21.0: the variables that our roots set, the resources that these make.
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.79"
    }
  }
}

variable "name" { type = string }
variable "cidr" { type = string }
variable "azs" { type = list(string) }
variable "private_subnets" { type = list(string) }
variable "public_subnets" { type = list(string) }
variable "enable_nat_gateway" { type = bool }
variable "single_nat_gateway" { type = bool }
variable "enable_dns_hostnames" { type = bool }

variable "public_subnet_tags" {
  type    = map(string)
  default = {}
}

variable "private_subnet_tags" {
  type    = map(string)
  default = {}
}

variable "private_subnet_tags_per_az" {
  type    = map(map(string))
  default = {}
}

resource "aws_vpc" "this" {
  count = 1

  cidr_block           = var.cidr
  enable_dns_hostnames = var.enable_dns_hostnames
  enable_dns_support   = true
  tags                 = { Name = var.name }
}

resource "aws_default_network_acl" "this" {
  count = 1

  default_network_acl_id = aws_vpc.this[0].default_network_acl_id
  tags                   = { Name = "${var.name}-default" }
}

resource "aws_default_route_table" "default" {
  count = 1

  default_route_table_id = aws_vpc.this[0].default_route_table_id
  tags                   = { Name = "${var.name}-default" }
}

resource "aws_default_security_group" "this" {
  count = 1

  vpc_id = aws_vpc.this[0].id
  tags   = { Name = "${var.name}-default" }
}

resource "aws_internet_gateway" "this" {
  count = 1

  vpc_id = aws_vpc.this[0].id
  tags   = { Name = var.name }
}

resource "aws_subnet" "public" {
  count = length(var.public_subnets)

  vpc_id            = aws_vpc.this[0].id
  availability_zone = var.azs[count.index]
  cidr_block        = var.public_subnets[count.index]
  tags              = merge({ Name = "${var.name}-public-${var.azs[count.index]}" }, var.public_subnet_tags)
}

resource "aws_subnet" "private" {
  count = length(var.private_subnets)

  vpc_id            = aws_vpc.this[0].id
  availability_zone = var.azs[count.index]
  cidr_block        = var.private_subnets[count.index]
  tags = merge(
    { Name = "${var.name}-private-${var.azs[count.index]}" },
    var.private_subnet_tags,
    lookup(var.private_subnet_tags_per_az, var.azs[count.index], {}),
  )
}

resource "aws_route_table" "public" {
  count = 1

  vpc_id = aws_vpc.this[0].id
  tags   = { Name = "${var.name}-public" }
}

resource "aws_route_table" "private" {
  count = var.single_nat_gateway ? 1 : length(var.azs)

  vpc_id = aws_vpc.this[0].id
  tags   = { Name = "${var.name}-private" }
}

resource "aws_route_table_association" "public" {
  count = length(var.public_subnets)

  subnet_id      = aws_subnet.public[count.index].id
  route_table_id = aws_route_table.public[0].id
}

resource "aws_route_table_association" "private" {
  count = length(var.private_subnets)

  subnet_id      = aws_subnet.private[count.index].id
  route_table_id = aws_route_table.private[var.single_nat_gateway ? 0 : count.index].id
}

resource "aws_route" "public_internet_gateway" {
  count = 1

  route_table_id         = aws_route_table.public[0].id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this[0].id
}

resource "aws_eip" "nat" {
  count = var.enable_nat_gateway ? 1 : 0

  domain = "vpc"
  tags   = { Name = "${var.name}-${var.azs[0]}" }
}

resource "aws_nat_gateway" "this" {
  count = var.enable_nat_gateway ? 1 : 0

  allocation_id = aws_eip.nat[0].id
  subnet_id     = aws_subnet.public[0].id
  tags          = { Name = "${var.name}-${var.azs[0]}" }
}

resource "aws_route" "private_nat_gateway" {
  count = var.enable_nat_gateway ? 1 : 0

  route_table_id         = aws_route_table.private[0].id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[0].id
}

output "vpc_id" { value = aws_vpc.this[0].id }
output "private_subnets" { value = aws_subnet.private[*].id }
output "private_route_table_ids" { value = aws_route_table.private[*].id }
