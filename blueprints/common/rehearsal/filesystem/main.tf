# Stands in for ../../terraform/filesystem: the same variables and outputs, made of built-in resources only.
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

variable "vpc_id" {
  type = string
}

variable "vpc_cidr" {
  type = string
}

variable "subnet_id" {
  type = string
}

variable "capacity_gib" {
  type = number
}

variable "throughput_mbps_per_tib" {
  type = number
}

variable "has_data_repository" {
  type = bool
}

locals {
  id = "fs-${substr(sha1("${var.run_id}/${var.vpc_id}"), 0, 17)}"
}

resource "terraform_data" "security_group" {
  input = {
    ports = ["988", "1018-1023"]
    peers = var.vpc_cidr
  }
}

resource "terraform_data" "file_system" {
  input = {
    id         = local.id
    capacity   = var.capacity_gib
    throughput = var.throughput_mbps_per_tib
    subnet     = var.subnet_id
  }
  provisioner "local-exec" {
    command = "sleep 1"
  }

  depends_on = [terraform_data.security_group]
}

resource "terraform_data" "data_repository" {
  count = var.has_data_repository ? 1 : 0
  input = "${var.cluster_name}-data"

  depends_on = [terraform_data.file_system]
}

output "fsx_id" {
  value = terraform_data.file_system.output.id
}

output "fsx_dns_name" {
  value = "${local.id}.fsx.${var.region}.amazonaws.com"
}

output "fsx_mount_name" {
  value = "fsxeksml"
}
