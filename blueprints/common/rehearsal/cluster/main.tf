# Stands in for ../../terraform/cluster: the same variables and outputs, made of built-in resources only.
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

variable "eks_version" {
  type = string
}

variable "core_instance_type" {
  type = string
}

variable "core_nodes" {
  type = number
}

variable "vpc_id" {
  type = string
}

variable "private_subnet_ids" {
  type = string
}

variable "core_labels" {
  type    = string
  default = "{}"
}

variable "results_bucket" {
  type    = string
  default = ""
}

variable "karpenter" {
  type    = bool
  default = false
}

variable "nvidia_plugin" {
  type    = bool
  default = false
}

variable "neuron_plugin" {
  type    = bool
  default = false
}

variable "efa_plugin" {
  type    = bool
  default = false
}

variable "fsx_csi" {
  type    = bool
  default = false
}

locals {
  wanted = {
    karpenter                 = var.karpenter
    nvidia-device-plugin      = var.nvidia_plugin
    neuron-helm-chart         = var.neuron_plugin
    aws-efa-k8s-device-plugin = var.efa_plugin
    aws-fsx-csi-driver        = var.fsx_csi
  }
  add_ons = concat(["vpc-cni", "coredns", "kube-proxy"], [for name, is_wanted in local.wanted : name if is_wanted])
}

resource "terraform_data" "control_plane" {
  input = {
    name    = var.cluster_name
    version = var.eks_version
    subnets = split(",", var.private_subnet_ids)
  }
  provisioner "local-exec" {
    command = "sleep 1"
  }
}

resource "terraform_data" "core_node_group" {
  input = {
    type   = var.core_instance_type
    count  = var.core_nodes
    labels = jsondecode(var.core_labels)
  }
  provisioner "local-exec" {
    command = "sleep 0.7"
  }

  depends_on = [terraform_data.control_plane]
}

resource "terraform_data" "add_ons" {
  input = local.add_ons

  depends_on = [terraform_data.core_node_group]
}

output "cluster_name" {
  value = terraform_data.control_plane.output.name
}

output "cluster_endpoint" {
  value = "https://${upper(substr(sha1(var.run_id), 0, 32))}.gr7.${var.region}.eks.amazonaws.com"
}

output "node_security_group_id" {
  value = "sg-${substr(sha1(var.vpc_id), 0, 17)}"
}

output "node_role_name" {
  value = "${var.cluster_name}-node"
}

output "export_service_account" {
  value = var.results_bucket == "" ? "" : "eksml-export"
}
