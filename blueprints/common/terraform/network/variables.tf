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

variable "account_id" {
  description = "The only AWS account to work in; the run's own. Empty: that of the credentials."
  type        = string
  default     = ""
}
