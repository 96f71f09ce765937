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

variable "core_subnet_ids" {
  description = "Subnets of the core nodes, comma-separated. Empty: the first of private_subnet_ids, where the file system is."
  type        = string
  default     = ""
}

variable "endpoint_public_access_cidrs" {
  description = "Address ranges that may reach the Kubernetes API from outside of the VPC, comma-separated. Empty: none; this machine must then have a way into the VPC."
  type        = string
  default     = "0.0.0.0/0"

  validation {
    condition     = alltrue([for range in compact(split(",", replace(var.endpoint_public_access_cidrs, " ", ""))) : can(cidrhost(range, 0))])
    error_message = "Address ranges are written as 203.0.113.0/24, several with commas."
  }
}

variable "access_entries" {
  description = "Who else may use the cluster, a JSON object from the ARN of a principal to an access policy of EKS: AmazonEKSClusterAdminPolicy, AmazonEKSAdminPolicy, AmazonEKSEditPolicy, AmazonEKSViewPolicy or AmazonEKSAdminViewPolicy."
  type        = string
  default     = "{}"

  validation {
    condition = can(jsondecode(var.access_entries)) && alltrue([
      for principal, policy in try(jsondecode(var.access_entries), {}) :
      can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/", principal)) && can(regex("^AmazonEKS[A-Za-z]+Policy$", policy))
    ])
    error_message = "Access entries are JSON: {\"arn:aws:iam::111122223333:role/ops\": \"AmazonEKSViewPolicy\"}."
  }
}

variable "admins" {
  description = "Who else administers the cluster: ARNs of roles and users, comma-separated."
  type        = string
  default     = ""

  validation {
    condition     = alltrue([for one in compact(split(",", replace(var.admins, " ", ""))) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/", one))])
    error_message = "Principals are written as arn:aws:iam::111122223333:role/ops, several with commas."
  }
}

variable "viewers" {
  description = "Who else may look at workloads, but not at secrets and nodes: ARNs of roles and users, comma-separated."
  type        = string
  default     = ""

  validation {
    condition     = alltrue([for one in compact(split(",", replace(var.viewers, " ", ""))) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/", one))])
    error_message = "Principals are written as arn:aws:iam::111122223333:role/ops, several with commas."
  }
}

variable "control_plane_logs" {
  description = "Logs of the control plane that go to CloudWatch: none, all, or some, comma-separated: api, audit, authenticator, controllerManager, scheduler. Their group /aws/eks/NAME/cluster stays after a teardown."
  type        = string
  default     = ""

  validation {
    condition = contains(["none", "all"], var.control_plane_logs) || alltrue([
      for log in compact(split(",", replace(var.control_plane_logs, " ", ""))) :
      contains(["api", "audit", "authenticator", "controllerManager", "scheduler"], log)
    ])
    error_message = "Logs are none, all, or some of api, audit, authenticator, controllerManager, scheduler."
  }
}

variable "extended_support" {
  description = "Whether the cluster stays on its version, at six times the price, when that version's standard support ends. If not, EKS updates it."
  type        = bool
  default     = false
}

variable "support_type" {
  description = "EXTENDED if the version was in extended support already when the run was launched; EKS takes nothing else for it then. The program knows. Empty: STANDARD."
  type        = string
  default     = ""

  validation {
    condition     = contains(["", "STANDARD", "EXTENDED"], var.support_type)
    error_message = "Support is STANDARD or EXTENDED."
  }
}

variable "kms_key_arn" {
  description = "Key for secrets and disks. Empty: secrets get a key of the cluster's own, disks are encrypted with the account's. The key's policy has to let AWSServiceRoleForAutoScaling use it."
  type        = string
  default     = ""
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

variable "account_id" {
  description = "The only AWS account to work in; the run's own. Empty: that of the credentials."
  type        = string
  default     = ""
}

variable "token_program" {
  description = "Python of eksml-tui, which makes the cluster's tokens for Helm. Empty: the program aws."
  type        = string
  default     = ""
}

# The charts below belong together and to the Kubernetes versions that blueprints offer: assets/versions of the program.

variable "karpenter_version" {
  description = "Chart of Karpenter. Each is made for a range of Kubernetes versions."
  type        = string
  default     = "1.14.1"
}

variable "nvidia_plugin_version" {
  description = "Chart of the NVIDIA device plugin."
  type        = string
  default     = "0.17.4"
}

variable "neuron_plugin_version" {
  description = "Chart of the Neuron device plugin. It runs on the instance types that it lists."
  type        = string
  default     = "1.3.0"
}

variable "efa_plugin_version" {
  description = "Chart of the EFA device plugin. It runs on the instance types that it lists."
  type        = string
  default     = "v0.5.30"
}

variable "fsx_csi_version" {
  description = "Chart of the FSx CSI driver. From 1.12.0 on its tools are those of Amazon Linux 2023, which the nodes run."
  type        = string
  default     = "1.17.0"
}
