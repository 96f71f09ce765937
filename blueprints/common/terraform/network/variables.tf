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
