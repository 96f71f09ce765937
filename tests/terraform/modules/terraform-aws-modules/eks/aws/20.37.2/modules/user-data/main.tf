terraform {
  required_providers {
    cloudinit = { source = "hashicorp/cloudinit" }
    null      = { source = "hashicorp/null" }
  }
}

resource "null_resource" "validate_cluster_service_cidr" {}
