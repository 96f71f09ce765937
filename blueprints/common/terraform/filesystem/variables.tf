variable "run_id" {
  description = "Run that this belongs to; the tag by which an audit finds it."
  type        = string
}

variable "cluster_name" {
  description = "Name of the cluster; begins the names of what is made here."
  type        = string
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "vpc_id" {
  description = "VPC of the network root."
  type        = string
}

variable "vpc_cidr" {
  description = "Address range that may reach the file system."
  type        = string
}

variable "subnet_id" {
  description = "The one subnet of the file system."
  type        = string
}

variable "capacity_gib" {
  description = "Size of the file system."
  type        = number

  validation {
    condition     = var.capacity_gib == 1200 || (var.capacity_gib > 0 && var.capacity_gib % 2400 == 0)
    error_message = "PERSISTENT_2 has 1200 GiB or a multiple of 2400 GiB."
  }
}

variable "throughput_mbps_per_tib" {
  description = "Throughput that is paid for."
  type        = number

  validation {
    condition     = contains([125, 250, 500, 1000], var.throughput_mbps_per_tib)
    error_message = "PERSISTENT_2 on SSD offers 125, 250, 500 or 1000 MB/s/TiB."
  }
}

variable "has_data_repository" {
  description = "Whether /data is linked with a bucket."
  type        = bool
}

variable "kms_key_arn" {
  description = "Key of the file system. Empty: the account's. Another one replaces the file system."
  type        = string
  default     = ""
}

variable "delete_data" {
  description = "Whether the bucket is emptied when it is destroyed. A teardown that may delete data sets it just before; else a bucket with data in it stops the destroy."
  type        = bool
  default     = false
}

variable "account_id" {
  description = "The only AWS account to work in; the run's own. Empty: that of the credentials."
  type        = string
  default     = ""
}
