terraform {
  required_version = ">= 1.5, < 2.0"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "5.100.0" # aws 6 changes what the modules expect
    }
    helm = {
      source  = "hashicorp/helm"
      version = "2.17.0" # helm 3 writes the kubernetes block differently
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

provider "helm" {
  kubernetes {
    host                   = module.eks.cluster_endpoint
    cluster_ca_certificate = base64decode(module.eks.cluster_certificate_authority_data)

    exec {
      api_version = "client.authentication.k8s.io/v1beta1"
      command     = local.token_command[0]
      args        = slice(local.token_command, 1, length(local.token_command))
    }
  }
}

locals {
  # eksml-tui's own plugin, so that the program aws is not needed; aws where the root is used by hand.
  token_command = concat(
    var.token_program == "" ? ["aws", "eks", "get-token"] : [var.token_program, "-P", "-m", "actions.cloud.token"],
    ["--cluster-name", module.eks.cluster_name, "--region", var.region],
  )
}
