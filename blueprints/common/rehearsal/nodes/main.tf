# Stands in for ../../terraform/nodes: the same variables and outputs. What it makes is a terraform_data, and a node
# group by the calls of EKS, sent to AWS_ENDPOINT_URL unsigned: only a sandbox answers them.
terraform {
  required_version = ">= 1.5"
}

variable "run_id" {
  type = string
}

variable "cluster_name" {
  type = string
}

variable "region" {
  type = string
}

variable "subnet_ids" {
  type = string
}

variable "node_security_group_id" {
  type    = string
  default = ""
}

variable "node_group_name" {
  type = string
}

variable "instance_type" {
  type = string
}

variable "node_count" {
  type = number
}

variable "ami_type" {
  type = string
}

variable "efa" {
  type    = bool
  default = false
}

variable "capacity_type" {
  type    = string
  default = "ON_DEMAND"
}

variable "capacity_reservation_id" {
  type    = string
  default = ""
}

variable "placement_group" {
  type    = bool
  default = false
}

variable "disk_gib" {
  type    = number
  default = 200
}

variable "labels" {
  type    = string
  default = "{}"
}

variable "taints" {
  type    = string
  default = "[]"
}

locals {
  accelerator = strcontains(var.ami_type, "NVIDIA") ? { accelerator = "nvidia" } : strcontains(var.ami_type, "NEURON") ? { accelerator = "neuron" } : {}
}

resource "terraform_data" "node_group" {
  input = {
    groups = "/clusters/${var.cluster_name}/node-groups"
    group  = "/clusters/${var.cluster_name}/node-groups/${var.node_group_name}"
    body = jsonencode({
      nodegroupName = var.node_group_name
      scalingConfig = { minSize = var.node_count, maxSize = var.node_count, desiredSize = var.node_count }
      instanceTypes = [var.instance_type]
      amiType       = var.ami_type
      capacityType  = var.capacity_type
      diskSize      = var.disk_gib
      subnets       = split(",", var.subnet_ids)
      nodeRole      = "arn:aws:iam::111122223333:role/${var.cluster_name}-${var.node_group_name}"
      labels        = merge(local.accelerator, jsondecode(var.labels))
      taints        = jsondecode(var.taints)
      tags = {
        eksml-run               = var.run_id
        efa                     = tostring(var.efa)
        placement-group         = tostring(var.placement_group)
        capacity-reservation-id = var.capacity_reservation_id
      }
    })
  }

  provisioner "local-exec" {
    environment = {
      BODY        = self.input.body
      GROUPS_PATH = self.input.groups
      GROUP_PATH  = self.input.group
    }
    command = <<-EOT
      [ -n "$AWS_ENDPOINT_URL" ] || { echo "No AWS_ENDPOINT_URL: no sandbox to ask."; exit 0; }
      curl -sS --fail-with-body -X POST -H 'Content-Type: application/json' -d "$BODY" "$AWS_ENDPOINT_URL$GROUPS_PATH" || exit 1
      for attempt in $(seq 1 600); do
        answer=$(curl -sS --fail-with-body "$AWS_ENDPOINT_URL$GROUP_PATH") || { echo "$answer"; exit 1; }
        case "$answer" in
          *'"ACTIVE"'*) echo; echo "The node group is active."; exit 0 ;;
          *'"CREATE_FAILED"'*) echo "$answer"; exit 1 ;;
        esac
        sleep 0.5
      done
      echo "The node group is still not active."
      exit 1
    EOT
  }

  provisioner "local-exec" {
    when = destroy
    environment = {
      GROUP_PATH = self.input.group
    }
    command = <<-EOT
      [ -n "$AWS_ENDPOINT_URL" ] || { echo "No AWS_ENDPOINT_URL: no sandbox to ask."; exit 0; }
      status() { curl -sS -o /dev/null -w '%%{http_code}' "$@" "$AWS_ENDPOINT_URL$GROUP_PATH"; }
      answer=$(status -X DELETE) || exit 1
      for attempt in $(seq 1 600); do
        case "$answer" in
          404) echo "The node group is gone."; exit 0 ;;
          5??|400|401|403) echo "The sandbox answered $answer."; exit 1 ;;
        esac
        sleep 0.5
        answer=$(status) || exit 1
      done
      echo "The node group is still there."
      exit 1
    EOT
  }
}

output "node_group_name" {
  value      = var.node_group_name
  depends_on = [terraform_data.node_group]
}

output "node_count" {
  value      = tostring(var.node_count)
  depends_on = [terraform_data.node_group]
}
