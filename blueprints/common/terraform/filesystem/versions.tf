terraform {
  required_version = ">= 1.5, < 2.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0" # aws 6 changes what the resources expect
    }
  }
}

provider "aws" {
  region              = var.region
  allowed_account_ids = var.account_id == "" ? null : [var.account_id]

  default_tags {
    tags = {
      eksml-run = var.run_id
    }
  }
}
