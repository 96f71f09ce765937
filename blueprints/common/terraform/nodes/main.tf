data "aws_partition" "current" {}

data "aws_eks_cluster" "this" {
  name = var.cluster_name

  lifecycle {
    precondition {
      condition     = var.capacity_type != "CAPACITY_BLOCK" || can(regex("^cr-[0-9a-f]{8,}$", var.capacity_reservation_id))
      error_message = "A capacity block needs the id of its reservation, cr-…, in capacity_reservation_id."
    }
  }
}

data "aws_ec2_instance_type" "this" {
  instance_type = var.instance_type
}

data "aws_ec2_instance_type_offerings" "this" {
  location_type = "availability-zone"

  filter {
    name   = "instance-type"
    values = [var.instance_type]
  }
}

data "aws_subnet" "this" {
  for_each = toset(split(",", var.subnet_ids))

  id = each.value

  lifecycle {
    postcondition {
      condition     = contains(data.aws_ec2_instance_type_offerings.this.locations, self.availability_zone)
      error_message = "${self.availability_zone} has no ${var.instance_type}: it is offered in ${join(", ", sort(data.aws_ec2_instance_type_offerings.this.locations))}. Choose one of these zones."
    }
  }
}

locals {
  prefix = "${var.cluster_name}-${var.node_group_name}"
  taints = jsondecode(var.taints)

  # What the device plugins look for.
  accelerator = strcontains(var.ami_type, "NVIDIA") ? { accelerator = "nvidia" } : strcontains(var.ami_type, "NEURON") ? { accelerator = "neuron" } : {}

  security_group_ids = compact([data.aws_eks_cluster.this.vpc_config[0].cluster_security_group_id, var.node_security_group_id])

  # Reserved instances stand where the reservation was made. A group of our own would have them placed anew, and EC2
  # answers InsufficientInstanceCapacity although the reservation is free.
  makes_placement_group = var.placement_group && var.placement_group_name == "" && var.capacity_reservation_id == ""
  placement_group       = local.makes_placement_group ? aws_placement_group.this[0].name : var.placement_group_name

  network_cards = var.efa ? data.aws_ec2_instance_type.this.maximum_network_cards : 0
}

# The group is made of resources here and not by the module, which creates a replacement before it deletes the failed
# group. That one keeps its name and its instances: a retry would collide with the name, or find the reservation taken.
resource "aws_eks_node_group" "this" {
  cluster_name    = var.cluster_name
  node_group_name = var.node_group_name
  node_role_arn   = aws_iam_role.this.arn
  subnet_ids      = [for subnet in data.aws_subnet.this : subnet.id]
  version         = data.aws_eks_cluster.this.version
  ami_type        = var.ami_type
  capacity_type   = var.capacity_type
  instance_types  = var.capacity_type == "CAPACITY_BLOCK" ? null : [var.instance_type] # a block's is in the template
  labels          = merge(local.accelerator, jsondecode(var.labels))

  scaling_config {
    min_size     = var.node_count
    max_size     = var.node_count
    desired_size = var.node_count
  }

  launch_template {
    id      = aws_launch_template.this.id
    version = aws_launch_template.this.latest_version
  }

  dynamic "taint" {
    for_each = local.taints

    content {
      key    = taint.value.key
      value  = try(taint.value.value, null)
      effect = taint.value.effect
    }
  }

  tags = { Name = var.node_group_name }

  # Without these rights nodes do not join, and without them at the end they are not cleared away.
  depends_on = [aws_iam_role_policy_attachment.this]
}

resource "aws_launch_template" "this" {
  name_prefix            = "${local.prefix}-"
  description            = "Nodes of ${var.node_group_name}"
  update_default_version = true
  user_data              = base64encode(local.user_data)
  instance_type          = var.capacity_type == "CAPACITY_BLOCK" ? var.instance_type : null
  vpc_security_group_ids = local.network_cards > 0 ? null : local.security_group_ids

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_size           = var.disk_gib
      volume_type           = "gp3"
      throughput            = var.disk_throughput_mibps
      iops                  = max(3000, var.disk_throughput_mibps * 4) # gp3 gives a quarter MiB/s for each
      encrypted             = true
      kms_key_id            = var.kms_key_arn == "" ? null : var.kms_key_arn
      delete_on_termination = true
    }
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }

  monitoring {
    enabled = true
  }

  # Every network card, the first as the node's own interface.
  dynamic "network_interfaces" {
    for_each = range(local.network_cards)

    content {
      interface_type              = "efa"
      network_card_index          = network_interfaces.value
      device_index                = network_interfaces.value == 0 ? 0 : 1
      associate_public_ip_address = false
      delete_on_termination       = true
      security_groups             = local.security_group_ids
    }
  }

  dynamic "placement" {
    for_each = compact([local.placement_group])

    content {
      group_name = placement.value
    }
  }

  dynamic "capacity_reservation_specification" {
    for_each = compact([var.capacity_reservation_id])

    content {
      capacity_reservation_target {
        capacity_reservation_id = capacity_reservation_specification.value
      }
    }
  }

  dynamic "instance_market_options" {
    for_each = var.capacity_type == "CAPACITY_BLOCK" ? ["capacity-block"] : []

    content {
      market_type = instance_market_options.value
    }
  }

  # Tags of the group do not reach its instances: an audit finds those by their own.
  dynamic "tag_specifications" {
    for_each = ["instance", "volume", "network-interface"]

    content {
      resource_type = tag_specifications.value
      tags          = { Name = var.node_group_name, eksml-run = var.run_id }
    }
  }
}

resource "aws_placement_group" "this" {
  count = local.makes_placement_group ? 1 : 0

  name     = local.prefix
  strategy = "cluster"
}

resource "aws_iam_role" "this" {
  name_prefix           = "${substr(local.prefix, 0, 37)}-" # a prefix has at most 38 characters
  description           = "Nodes of ${var.node_group_name} in ${var.cluster_name}"
  force_detach_policies = true

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "EKSNodeAssumeRole"
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })
}

resource "aws_iam_role_policy_attachment" "this" {
  for_each = toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryReadOnly", "AmazonEKS_CNI_Policy"])

  role       = aws_iam_role.this.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

locals {
  # EKS adds its own part to this one. Local NVMe disks, where the type has some, become one volume for images, logs and
  # emptyDir: without local disks nothing happens.
  user_data = <<-EOT
    MIME-Version: 1.0
    Content-Type: multipart/mixed; boundary="//"

    --//
    Content-Type: application/node.eks.aws

    ---
    apiVersion: node.eks.aws/v1alpha1
    kind: NodeConfig
    spec:
      instance:
        localStorage:
          strategy: RAID0

    --//--
  EOT
}
