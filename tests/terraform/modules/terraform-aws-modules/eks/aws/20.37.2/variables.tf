variable "cluster_name" { type = string }
variable "cluster_version" { type = string }
variable "vpc_id" { type = string }
variable "subnet_ids" { type = list(string) }
variable "eks_managed_node_groups" { type = any }

variable "access_entries" {
  type    = any
  default = {}
}

variable "cluster_addons" {
  type    = any
  default = {}
}

variable "cluster_enabled_log_types" {
  type    = list(string)
  default = ["audit", "api", "authenticator"]
}

variable "cluster_encryption_config" {
  type    = any
  default = { resources = ["secrets"] }
}

variable "create_kms_key" {
  type    = bool
  default = true
}

variable "cluster_endpoint_private_access" {
  type    = bool
  default = true
}

variable "cluster_endpoint_public_access" {
  type    = bool
  default = false
}

variable "cluster_endpoint_public_access_cidrs" {
  type    = list(string)
  default = ["0.0.0.0/0"]
}

variable "cluster_upgrade_policy" {
  type    = any
  default = {}
}

variable "create_cloudwatch_log_group" {
  type    = bool
  default = true
}

variable "enable_cluster_creator_admin_permissions" {
  type    = bool
  default = false
}

variable "enable_efa_support" {
  type    = bool
  default = false
}

variable "iam_role_name" {
  type    = string
  default = null
}

variable "node_security_group_tags" {
  type    = map(string)
  default = {}
}
