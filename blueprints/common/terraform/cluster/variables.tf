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
  description = "Instance type of the nodes for add-ons, launchers and data jobs."
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

variable "core_labels" {
  description = "Labels of the core nodes beside the usual ones, a JSON object."
  type        = string
  default     = "{}"
}

variable "karpenter" {
  description = "Whether Karpenter is installed."
  type        = bool
  default     = false
}

variable "nvidia_plugin" {
  description = "Whether the NVIDIA device plugin is installed. It runs where a node has the label accelerator=nvidia."
  type        = bool
  default     = false
}

variable "neuron_plugin" {
  description = "Whether the Neuron device plugin is installed."
  type        = bool
  default     = false
}

variable "efa_plugin" {
  description = "Whether the EFA device plugin is installed."
  type        = bool
  default     = false
}

variable "fsx_csi" {
  description = "Whether the FSx CSI driver is installed."
  type        = bool
  default     = false
}
