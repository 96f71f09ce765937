# Stands in for ../../terraform/nodes: the same variables and outputs. What it makes is a terraform_data, and a node
# group by the calls of EKS, which are sent to AWS_ENDPOINT_URL by curl: only a sandbox answers them there.
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

variable "placement_group_name" {
  type    = string
  default = ""
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

  # A shell function: curl with the account's credentials, which it reads from its standard input, as other users of the
  # machine see its arguments. They are the environment's, or those of the credentials file.
  signing = <<-EOT
    key() { sed -n "s/^$1 *= *//p" "$AWS_SHARED_CREDENTIALS_FILE" | head -n 1; }
    if [ -z "$AWS_ACCESS_KEY_ID" ] && [ -n "$AWS_SHARED_CREDENTIALS_FILE" ]; then
      AWS_ACCESS_KEY_ID=$(key aws_access_key_id)
      AWS_SECRET_ACCESS_KEY=$(key aws_secret_access_key)
    fi
    signed() {
      printf 'user = "%s:%s"\n' "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY" |
        curl -sS -K - --aws-sigv4 "aws:amz:$${AWS_REGION:-us-west-2}:eks" "$@"
    }
  EOT
}

# Known to the state before anything is sent, so that a destroy deletes what an interrupted apply has left: Terraform runs
# no destroy provisioner of a resource whose creation has failed.
resource "terraform_data" "node_group" {
  input = {
    groups  = "/clusters/${var.cluster_name}/node-groups"
    group   = "/clusters/${var.cluster_name}/node-groups/${var.node_group_name}"
    signing = local.signing
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
    when = destroy
    environment = {
      GROUP_PATH = self.input.group
      SIGNING    = self.input.signing
      RUN_ID     = jsondecode(self.input.body).tags.eksml-run
    }
    command = <<-EOT
      [ -n "$AWS_ENDPOINT_URL" ] || { echo "No AWS_ENDPOINT_URL: no sandbox to ask."; exit 0; }
      eval "$SIGNING"
      there=$(signed "$AWS_ENDPOINT_URL$GROUP_PATH") || exit 1
      case "$there" in
        *'"nodegroup"'*"\"$RUN_ID\""*) ;;
        *'"nodegroup"'*) echo "The node group is another run's."; exit 0 ;;
      esac
      status() { signed -o /dev/null -w '%%{http_code}' "$@" "$AWS_ENDPOINT_URL$GROUP_PATH"; }
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

resource "terraform_data" "active_node_group" {
  input = terraform_data.node_group.output.group

  provisioner "local-exec" {
    environment = {
      BODY        = terraform_data.node_group.output.body
      GROUPS_PATH = terraform_data.node_group.output.groups
      GROUP_PATH  = terraform_data.node_group.output.group
      SIGNING     = local.signing
      RUN_ID      = var.run_id
    }
    command = <<-EOT
      [ -n "$AWS_ENDPOINT_URL" ] || { echo "No AWS_ENDPOINT_URL: no sandbox to ask."; exit 0; }
      eval "$SIGNING"
      made=$(signed --fail-with-body -X POST -H 'Content-Type: application/json' -d "$BODY" "$AWS_ENDPOINT_URL$GROUPS_PATH") || {
        case "$made" in *"already exists"*) there=$(signed "$AWS_ENDPOINT_URL$GROUP_PATH") ;; *) there= ;; esac
        case "$there" in *"\"$RUN_ID\""*) ;; *) echo "$made"; exit 1 ;; esac # an apply that was interrupted had sent it
      }
      for attempt in $(seq 1 600); do
        answer=$(signed --fail-with-body "$AWS_ENDPOINT_URL$GROUP_PATH") || { echo "$answer"; exit 1; }
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
}

output "node_group_name" {
  value      = var.node_group_name
  depends_on = [terraform_data.active_node_group]
}

output "node_count" {
  value      = tostring(var.node_count)
  depends_on = [terraform_data.active_node_group]
}
