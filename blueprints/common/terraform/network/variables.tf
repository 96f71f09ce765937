variable "run_id" {
  description = "Run that this belongs to; the tag by which an audit finds it."
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster that will live here."
  type        = string
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "vpc_cidr" {
  description = "Address range of the VPC."
  type        = string
  default     = "10.1.0.0/16"
}

variable "zone" {
  description = "Zone of file system and accelerated nodes, by name or id: one that offers the nodes' type, and where the capacity reservation is. Empty or auto: the region's first."
  type        = string
  default     = ""

  validation {
    condition     = contains(["", "auto"], var.zone) || startswith(var.zone, var.region) || can(regex("^[a-z]{3,5}[0-9]+-az[0-9]+$", var.zone))
    error_message = "The zone is not one of the region."
  }
}

variable "flow_logs" {
  description = "Whether the VPC's traffic is recorded in CloudWatch, in a group that the teardown takes away."
  type        = bool
  default     = false
}

variable "flow_log_days" {
  description = "Days for which CloudWatch keeps the record."
  type        = number
  default     = 30
}

variable "kms_key_arn" {
  description = "Key of that record. Empty: CloudWatch's own. The key's policy has to let logs.REGION.amazonaws.com use it."
  type        = string
  default     = ""
}

variable "account_id" {
  description = "The only AWS account to work in; the run's own. Empty: that of the credentials."
  type        = string
  default     = ""
}
