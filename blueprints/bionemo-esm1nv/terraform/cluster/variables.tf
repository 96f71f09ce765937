variable "run_id" {
  description = "Run that this belongs to; the tag by which an audit finds it."
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "eks_version" {
  description = "Kubernetes version."
  type        = string
}

variable "core_instance_type" {
  description = "Instance type of the nodes for add-ons and the data job."
  type        = string
}

variable "core_nodes" {
  description = "Number of those nodes."
  type        = number

  validation {
    condition     = var.core_nodes >= 2
    error_message = "The add-ons need two core nodes."
  }
}

variable "vpc_id" {
  description = "VPC of the network root."
  type        = string
}

variable "private_subnet_ids" {
  description = "Subnets of the network root, comma-separated."
  type        = string
}
