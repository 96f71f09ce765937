# Stands in for the node groups of the eks module.
variable "name" { type = string }
variable "cluster_name" { type = string }
variable "cluster_version" { type = string }
variable "subnet_ids" { type = list(string) }
variable "group" { type = any }
variable "partition" { type = string }

module "user_data" {
  source = "../user-data"
}

resource "aws_eks_node_group" "this" {
  count = 1

  cluster_name           = var.cluster_name
  version                = var.cluster_version
  node_group_name_prefix = "${var.name}-"
  node_role_arn          = aws_iam_role.this[0].arn
  subnet_ids             = var.subnet_ids
  ami_type               = var.group.ami_type
  instance_types         = var.group.instance_types
  labels                 = try(var.group.labels, null)

  scaling_config {
    min_size     = var.group.min_size
    max_size     = var.group.max_size
    desired_size = var.group.desired_size
  }

  launch_template {
    id      = aws_launch_template.this[0].id
    version = aws_launch_template.this[0].default_version
  }

  update_config {
    max_unavailable_percentage = 33
  }

  tags = { Name = var.name }

  lifecycle {
    create_before_destroy = true
    ignore_changes        = [scaling_config[0].desired_size]
  }
}

resource "aws_launch_template" "this" {
  count = 1

  name_prefix            = "${var.name}-"
  update_default_version = true

  dynamic "block_device_mappings" {
    for_each = try(var.group.block_device_mappings, {})

    content {
      device_name = block_device_mappings.value.device_name

      ebs {
        volume_size           = block_device_mappings.value.ebs.volume_size
        volume_type           = block_device_mappings.value.ebs.volume_type
        encrypted             = block_device_mappings.value.ebs.encrypted
        kms_key_id            = try(block_device_mappings.value.ebs.kms_key_id, null)
        delete_on_termination = block_device_mappings.value.ebs.delete_on_termination
      }
    }
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume", "network-interface"])

    content {
      resource_type = tag_specifications.key
      tags          = merge({ Name = var.name }, try(var.group.launch_template_tags, {}))
    }
  }

  tags = try(var.group.launch_template_tags, {})

  depends_on = [aws_iam_role_policy_attachment.this]

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_iam_role" "this" {
  count = 1

  name_prefix           = "${var.name}-eks-node-group-"
  assume_role_policy    = "{}"
  force_detach_policies = true
}

resource "aws_iam_role_policy_attachment" "this" {
  for_each = toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryReadOnly", "AmazonEKS_CNI_Policy"])

  role       = aws_iam_role.this[0].name
  policy_arn = "arn:${var.partition}:iam::aws:policy/${each.value}"
}

output "iam_role_name" { value = aws_iam_role.this[0].name }
