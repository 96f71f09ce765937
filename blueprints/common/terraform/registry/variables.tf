variable "run_id" {
  description = "Run that this belongs to; the tag by which an audit finds it."
  type        = string
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "repository_name" {
  description = "Name of the image repository, e.g. nemo-aws."
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the images. Empty: ECR's own, AES-256. Another one replaces the repository."
  type        = string
  default     = ""
}

variable "account_id" {
  description = "The only AWS account to work in; the run's own. Empty: that of the credentials."
  type        = string
  default     = ""
}
