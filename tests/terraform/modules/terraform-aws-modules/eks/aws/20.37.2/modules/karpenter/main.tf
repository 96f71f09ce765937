# Stands in for terraform-aws-modules/eks/aws//modules/karpenter 20.37.2.
variable "cluster_name" { type = string }
variable "namespace" { type = string }
variable "node_iam_role_name" { type = string }

variable "create" {
  type    = bool
  default = true
}

variable "enable_v1_permissions" {
  type    = bool
  default = false
}

variable "create_pod_identity_association" {
  type    = bool
  default = false
}

variable "node_iam_role_use_name_prefix" {
  type    = bool
  default = true
}

variable "node_iam_role_additional_policies" {
  type    = map(string)
  default = {}
}

locals {
  count = var.create ? 1 : 0
  events = {
    health_event          = "KarpenterHealthEvent-"
    spot_interrupt        = "KarpenterSpotInterrupt-"
    instance_rebalance    = "KarpenterInstanceRebalance-"
    instance_state_change = "KarpenterInstanceStateChange-"
  }
  policies = ["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryReadOnly", "AmazonEKS_CNI_Policy"]
}

data "aws_partition" "current" {}

resource "aws_iam_role" "controller" {
  count = local.count

  name_prefix           = "KarpenterController-"
  path                  = "/"
  assume_role_policy    = "{}"
  force_detach_policies = true
}

resource "aws_iam_policy" "controller" {
  count = local.count

  name_prefix = "KarpenterController-"
  path        = "/"
  policy      = "{}"
}

resource "aws_iam_role_policy_attachment" "controller" {
  count = local.count

  role       = aws_iam_role.controller[0].name
  policy_arn = aws_iam_policy.controller[0].arn
}

resource "aws_eks_pod_identity_association" "karpenter" {
  count = var.create && var.create_pod_identity_association ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = "karpenter"
  role_arn        = aws_iam_role.controller[0].arn
}

resource "aws_sqs_queue" "this" {
  count = local.count

  name                      = "Karpenter-${var.cluster_name}"
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
}

resource "aws_sqs_queue_policy" "this" {
  count = local.count

  queue_url = aws_sqs_queue.this[0].url
  policy    = "{}"
}

resource "aws_cloudwatch_event_rule" "this" {
  for_each = { for name, prefix in local.events : name => prefix if var.create }

  name_prefix   = each.value
  event_pattern = "{}"
  tags          = { ClusterName = var.cluster_name }
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = { for name, prefix in local.events : name => prefix if var.create }

  rule      = aws_cloudwatch_event_rule.this[each.key].name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.this[0].arn
}

resource "aws_iam_role" "node" {
  count = local.count

  name                  = var.node_iam_role_use_name_prefix ? null : var.node_iam_role_name
  name_prefix           = var.node_iam_role_use_name_prefix ? "${var.node_iam_role_name}-" : null
  path                  = "/"
  assume_role_policy    = "{}"
  force_detach_policies = true
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = toset(var.create ? local.policies : [])

  role       = aws_iam_role.node[0].name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

resource "aws_iam_role_policy_attachment" "node_additional" {
  for_each = { for name, arn in var.node_iam_role_additional_policies : name => arn if var.create }

  role       = aws_iam_role.node[0].name
  policy_arn = each.value
}

resource "aws_eks_access_entry" "node" {
  count = local.count

  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node[0].arn
  type          = "EC2_LINUX"
}

output "iam_role_name" { value = try(aws_iam_role.controller[0].name, null) }
output "queue_name" { value = try(aws_sqs_queue.this[0].name, null) }
output "node_iam_role_name" { value = try(aws_iam_role.node[0].name, null) }
