# Stands in for ../../terraform/registry: the same variables and outputs, made of built-in resources only.
terraform {
  required_version = ">= 1.4"
}

variable "run_id" {
  type = string
}

variable "region" {
  type = string
}

variable "repository_name" {
  type = string
}

resource "terraform_data" "repository" {
  input = "111122223333.dkr.ecr.${var.region}.amazonaws.com/${var.repository_name}"
}

output "repository_url" {
  value = terraform_data.repository.output
}
