# Stands in for terraform-aws-modules/eks/aws 20.37.2: the variables that our roots set, the resources that these make.
terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.95, < 6.0"
    }
    time = { source = "hashicorp/time" }
    tls  = { source = "hashicorp/tls" }
  }
}

data "aws_partition" "current" {}
data "aws_caller_identity" "current" {}

data "aws_iam_session_context" "current" {
  arn = data.aws_caller_identity.current.arn
}

data "tls_certificate" "this" {
  url = aws_eks_cluster.this[0].identity[0].oidc[0].issuer
}

locals {
  partition = data.aws_partition.current.partition
  creator = {
    cluster_creator = {
      principal_arn = data.aws_iam_session_context.current.issuer_arn
      policy_associations = {
        admin = {
          policy_arn   = "arn:${local.partition}:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
          access_scope = { type = "cluster" }
        }
      }
    }
  }
  entries = merge(var.enable_cluster_creator_admin_permissions ? local.creator : {}, var.access_entries)
  associations = merge([
    for key, entry in local.entries : {
      for name, association in entry.policy_associations : "${key}_${name}" => {
        principal_arn = entry.principal_arn
        policy_arn    = association.policy_arn
        scope         = association.access_scope.type
      }
    }
  ]...)

  from_cluster = {
    ingress_cluster_443          = 443
    ingress_cluster_4443_webhook = 4443
    ingress_cluster_6443_webhook = 6443
    ingress_cluster_8443_webhook = 8443
    ingress_cluster_9443_webhook = 9443
    ingress_cluster_kubelet      = 10250
  }
  rules = merge(
    { for name, port in local.from_cluster : name => {
      type = "ingress", protocol = "tcp", from = port, to = port, self = null, cidrs = null
    } },
    {
      ingress_nodes_ephemeral  = { type = "ingress", protocol = "tcp", from = 1025, to = 65535, self = true, cidrs = null }
      ingress_self_coredns_tcp = { type = "ingress", protocol = "tcp", from = 53, to = 53, self = true, cidrs = null }
      ingress_self_coredns_udp = { type = "ingress", protocol = "udp", from = 53, to = 53, self = true, cidrs = null }
      egress_all               = { type = "egress", protocol = "-1", from = 0, to = 0, self = null, cidrs = ["0.0.0.0/0"] }
    },
    { for name, type in { ingress_all_self_efa = "ingress", egress_all_self_efa = "egress" } : name => {
      type                                     = type, protocol = "-1", from = 0, to = 0, self = true, cidrs = null
    } if var.enable_efa_support },
  )
}

resource "aws_eks_cluster" "this" {
  count = 1

  name                          = var.cluster_name
  version                       = var.cluster_version
  role_arn                      = aws_iam_role.this[0].arn
  enabled_cluster_log_types     = var.cluster_enabled_log_types
  bootstrap_self_managed_addons = true

  access_config {
    authentication_mode                         = "API_AND_CONFIG_MAP"
    bootstrap_cluster_creator_admin_permissions = false
  }

  vpc_config {
    subnet_ids              = var.subnet_ids
    security_group_ids      = [aws_security_group.cluster[0].id]
    endpoint_private_access = var.cluster_endpoint_private_access
    endpoint_public_access  = var.cluster_endpoint_public_access
    public_access_cidrs     = var.cluster_endpoint_public_access_cidrs
  }

  encryption_config {
    resources = ["secrets"]

    provider {
      key_arn = var.create_kms_key ? module.kms.key_arn : var.cluster_encryption_config.provider_key_arn
    }
  }

  kubernetes_network_config {
    ip_family = "ipv4"
  }

  dynamic "upgrade_policy" {
    for_each = length(var.cluster_upgrade_policy) > 0 ? [var.cluster_upgrade_policy] : []

    content {
      support_type = upgrade_policy.value.support_type
    }
  }

  tags = { terraform-aws-modules = "eks" }

  depends_on = [aws_iam_role_policy_attachment.this, aws_security_group_rule.node, aws_security_group_rule.cluster]
}

resource "aws_cloudwatch_log_group" "this" {
  count = var.create_cloudwatch_log_group ? 1 : 0

  name = "/aws/eks/${var.cluster_name}/cluster"
}

resource "aws_eks_access_entry" "this" {
  for_each = local.entries

  cluster_name  = aws_eks_cluster.this[0].id
  principal_arn = each.value.principal_arn
  type          = "STANDARD"
}

resource "aws_eks_access_policy_association" "this" {
  for_each = local.associations

  cluster_name  = aws_eks_cluster.this[0].id
  principal_arn = each.value.principal_arn
  policy_arn    = each.value.policy_arn

  access_scope {
    type       = each.value.scope
    namespaces = []
  }

  depends_on = [aws_eks_access_entry.this]
}

resource "aws_eks_addon" "before_compute" {
  for_each = { for name, addon in var.cluster_addons : name => addon if try(addon.before_compute, false) }

  cluster_name                = aws_eks_cluster.this[0].id
  addon_name                  = each.key
  preserve                    = true
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"
}

resource "aws_eks_addon" "this" {
  for_each = { for name, addon in var.cluster_addons : name => addon if !try(addon.before_compute, false) }

  cluster_name                = aws_eks_cluster.this[0].id
  addon_name                  = each.key
  preserve                    = true
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"

  depends_on = [module.eks_managed_node_group]
}

resource "aws_iam_openid_connect_provider" "oidc_provider" {
  count = 1

  url             = aws_eks_cluster.this[0].identity[0].oidc[0].issuer
  client_id_list  = ["sts.amazonaws.com"]
  thumbprint_list = [data.tls_certificate.this.certificates[0].sha1_fingerprint]
  tags            = { Name = "${var.cluster_name}-eks-irsa" }
}

resource "aws_iam_role" "this" {
  count = 1

  name_prefix           = "${coalesce(var.iam_role_name, "${var.cluster_name}-cluster")}-"
  assume_role_policy    = "{}"
  force_detach_policies = true
}

resource "aws_iam_role_policy_attachment" "this" {
  for_each = toset(["AmazonEKSClusterPolicy", "AmazonEKSVPCResourceController"])

  role       = aws_iam_role.this[0].name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.value}"
}

resource "aws_iam_policy" "cluster_encryption" {
  count = 1

  name_prefix = "${coalesce(var.iam_role_name, "${var.cluster_name}-cluster")}-ClusterEncryption"
  policy      = "{}"
}

resource "aws_iam_role_policy_attachment" "cluster_encryption" {
  count = 1

  role       = aws_iam_role.this[0].name
  policy_arn = aws_iam_policy.cluster_encryption[0].arn
}

resource "aws_iam_policy" "custom" {
  count = 1

  name_prefix = "${coalesce(var.iam_role_name, "${var.cluster_name}-cluster")}-"
  policy      = "{}"
}

resource "aws_iam_role_policy_attachment" "custom" {
  count = 1

  role       = aws_iam_role.this[0].name
  policy_arn = aws_iam_policy.custom[0].arn
}

resource "aws_security_group" "cluster" {
  count = 1

  name_prefix = "${var.cluster_name}-cluster-"
  vpc_id      = var.vpc_id
  tags        = { Name = "${var.cluster_name}-cluster" }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_security_group" "node" {
  count = 1

  name_prefix = "${var.cluster_name}-node-"
  vpc_id      = var.vpc_id
  tags = merge(
    { Name = "${var.cluster_name}-node", "kubernetes.io/cluster/${var.cluster_name}" = "owned" },
    var.node_security_group_tags,
  )

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_security_group_rule" "cluster" {
  for_each = toset(["ingress_nodes_443"])

  type                     = "ingress"
  protocol                 = "tcp"
  from_port                = 443
  to_port                  = 443
  security_group_id        = aws_security_group.cluster[0].id
  source_security_group_id = aws_security_group.node[0].id
}

resource "aws_security_group_rule" "node" {
  for_each = local.rules

  type                     = each.value.type
  protocol                 = each.value.protocol
  from_port                = each.value.from
  to_port                  = each.value.to
  self                     = each.value.self
  cidr_blocks              = each.value.cidrs
  security_group_id        = aws_security_group.node[0].id
  source_security_group_id = contains(keys(local.from_cluster), each.key) ? aws_security_group.cluster[0].id : null
}

resource "time_sleep" "this" {
  count = 1

  create_duration = "30s"
  triggers = {
    cluster_name         = aws_eks_cluster.this[0].id
    cluster_version      = aws_eks_cluster.this[0].version
    cluster_service_cidr = aws_eks_cluster.this[0].kubernetes_network_config[0].service_ipv4_cidr
  }
}

module "kms" {
  source = "./modules/kms"

  create = var.create_kms_key
  name   = var.cluster_name
}

module "eks_managed_node_group" {
  source   = "./modules/eks-managed-node-group"
  for_each = var.eks_managed_node_groups

  name            = each.key
  cluster_name    = time_sleep.this[0].triggers["cluster_name"]
  cluster_version = var.cluster_version
  subnet_ids      = try(each.value.subnet_ids, var.subnet_ids)
  group           = each.value
  partition       = local.partition
}
