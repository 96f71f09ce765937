# Stands in for ../../terraform/network: the same variables and outputs, made of built-in resources only.
terraform {
  required_version = ">= 1.4"
}

variable "run_id" {
  type = string
}

variable "cluster_name" {
  type = string
}

variable "region" {
  type = string
}

variable "zone" {
  type    = string
  default = ""
}

locals {
  tail = substr(sha1(var.run_id), 0, 17)
}

resource "terraform_data" "vpc" {
  input = "vpc-${local.tail}"
  provisioner "local-exec" {
    command = "sleep 0.3"
  }
}

resource "terraform_data" "private_subnet" {
  count = 2
  input = "subnet-${count.index}${substr(local.tail, 1, 16)}"

  depends_on = [terraform_data.vpc]
}

resource "terraform_data" "nat_gateway" {
  input = "nat-${local.tail}"
  provisioner "local-exec" {
    command = "sleep 0.5"
  }

  depends_on = [terraform_data.vpc]
}

output "vpc_id" {
  value = terraform_data.vpc.output
}

output "vpc_cidr" {
  value = "10.1.0.0/16"
}

output "private_subnet_ids" {
  value = join(",", terraform_data.private_subnet[*].output)
}

output "storage_subnet_id" {
  value = terraform_data.private_subnet[0].output
}
