variable "run_id" {
  description = "Run that this belongs to; the tag by which an audit finds it."
  type        = string
}

variable "cluster_name" {
  description = "Cluster that the nodes join."
  type        = string
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "subnet_ids" {
  description = "Subnets of the nodes, comma-separated. One alone keeps all of them in one zone, as EFA and a placement group want."
  type        = string
}

variable "node_security_group_id" {
  description = "Security group of the cluster's nodes, whose rule to itself EFA needs. Empty: only the cluster's own."
  type        = string
  default     = ""
}

variable "node_group_name" {
  description = "Name of the node group."
  type        = string
}

variable "instance_type" {
  description = "Instance type of the nodes."
  type        = string
}

variable "node_count" {
  description = "Number of nodes, from the first moment to the last."
  type        = number

  validation {
    condition     = var.node_count >= 1
    error_message = "A node group has at least one node."
  }
}

variable "ami_type" {
  description = "AL2023_x86_64_NVIDIA, AL2023_x86_64_NEURON or AL2023_x86_64_STANDARD; Amazon Linux 2 has no image from Kubernetes 1.33 on."
  type        = string

  validation {
    condition     = startswith(var.ami_type, "AL2023_")
    error_message = "Amazon Linux 2 has ended: choose an image type that begins with AL2023_."
  }
}

variable "efa" {
  description = "Whether every EFA interface of the instance type is attached."
  type        = bool
  default     = false
}

variable "capacity_type" {
  description = "ON_DEMAND, SPOT or CAPACITY_BLOCK."
  type        = string
  default     = "ON_DEMAND"

  validation {
    condition     = contains(["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"], var.capacity_type)
    error_message = "Capacity is ON_DEMAND, SPOT or CAPACITY_BLOCK."
  }
}

variable "capacity_reservation_id" {
  description = "Reservation that the nodes are taken from; empty for none."
  type        = string
  default     = ""
}

variable "placement_group" {
  description = "Whether the nodes stand close together in a cluster placement group of their own. Not with a reservation: its instances stand where it was made."
  type        = bool
  default     = false
}

variable "placement_group_name" {
  description = "Existing placement group that the nodes start in, such as that of a reservation; empty for none."
  type        = string
  default     = ""
}

variable "disk_gib" {
  description = "Size of each node's root disk: images above 20 GB are unpacked there."
  type        = number
  default     = 200
}

variable "disk_throughput_mibps" {
  description = "Throughput of that disk: images above 20 GB are read from it, unless the type has local disks."
  type        = number
  default     = 500

  validation {
    condition     = var.disk_throughput_mibps >= 125 && var.disk_throughput_mibps <= 1000
    error_message = "gp3 offers 125 to 1000 MiB/s."
  }
}

variable "kms_key_arn" {
  description = "Key of the root disks. Empty: the account's. The key's policy has to let AWSServiceRoleForAutoScaling use it."
  type        = string
  default     = ""
}

variable "labels" {
  description = "Labels of the nodes, a JSON object."
  type        = string
  default     = "{}"
}

variable "taints" {
  description = "Taints of the nodes, a JSON list of {key, value, effect}; the effect as EKS writes it: NO_SCHEDULE."
  type        = string
  default     = "[]"
}

variable "account_id" {
  description = "The only AWS account to work in; the run's own. Empty: that of the credentials."
  type        = string
  default     = ""
}
