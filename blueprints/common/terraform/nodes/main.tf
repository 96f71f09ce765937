data "aws_eks_cluster" "this" {
  name = var.cluster_name

  lifecycle {
    precondition {
      condition     = var.capacity_type != "CAPACITY_BLOCK" || can(regex("^cr-[0-9a-f]{8,}$", var.capacity_reservation_id))
      error_message = "A capacity block needs the id of its reservation, cr-…, in capacity_reservation_id."
    }
  }
}

locals {
  taints = jsondecode(var.taints)

  # What the device plugins look for.
  accelerator = strcontains(var.ami_type, "NVIDIA") ? { accelerator = "nvidia" } : strcontains(var.ami_type, "NEURON") ? { accelerator = "neuron" } : {}
}

module "nodes" {
  source  = "terraform-aws-modules/eks/aws//modules/eks-managed-node-group"
  version = "20.37.2"

  name                 = var.node_group_name
  use_name_prefix      = false
  cluster_name         = var.cluster_name
  cluster_version      = data.aws_eks_cluster.this.version
  cluster_service_cidr = data.aws_eks_cluster.this.kubernetes_network_config[0].service_ipv4_cidr
  subnet_ids           = split(",", var.subnet_ids)

  cluster_primary_security_group_id = data.aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  vpc_security_group_ids            = compact([var.node_security_group_id])

  iam_role_name            = substr("${var.cluster_name}-${var.node_group_name}", 0, 60)
  iam_role_use_name_prefix = false

  ami_type       = var.ami_type
  instance_types = [var.instance_type]
  capacity_type  = var.capacity_type

  min_size     = var.node_count
  max_size     = var.node_count
  desired_size = var.node_count

  enable_efa_support     = var.efa
  create_placement_group = var.placement_group

  capacity_reservation_specification = var.capacity_reservation_id == "" ? {} : {
    capacity_reservation_target = {
      capacity_reservation_id = var.capacity_reservation_id
    }
  }
  instance_market_options = var.capacity_type == "CAPACITY_BLOCK" ? { market_type = "capacity-block" } : {}

  block_device_mappings = {
    root = {
      device_name = "/dev/xvda"
      ebs = {
        volume_size           = var.disk_gib
        volume_type           = "gp3"
        encrypted             = true
        delete_on_termination = true
      }
    }
  }

  labels = merge(local.accelerator, jsondecode(var.labels))
  taints = { for index, taint in local.taints : tostring(index) => taint }

  # Tags of the group do not reach its instances: an audit finds those by their own.
  launch_template_tags = { eksml-run = var.run_id }
  tag_specifications   = ["instance", "volume", "network-interface"]
  tags                 = { eksml-run = var.run_id }
}
