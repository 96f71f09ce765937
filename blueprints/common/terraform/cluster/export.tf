# The role of the Job that copies results to S3 (`eksml-tui runs export`): one service account, one prefix of one bucket.

variable "results_bucket" {
  description = "Where results may be copied to: BUCKET/PREFIX, of a bucket that is there already. Empty: nowhere, and no role is made."
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[A-Za-z0-9._-]+)+)?$", var.results_bucket))
    error_message = "A place for results is written as BUCKET/PREFIX: my-models/team/esm1nv."
  }
}

variable "namespace" {
  description = "Namespace of the Job. Empty: default."
  type        = string
  default     = ""
}

locals {
  exports          = var.results_bucket != ""
  export_bucket    = "arn:${data.aws_partition.current.partition}:s3:::${split("/", var.results_bucket)[0]}"
  export_prefix    = join("/", slice(split("/", var.results_bucket), 1, length(split("/", var.results_bucket))))
  export_namespace = coalesce(var.namespace, "default")
  export_account   = "eksml-export" # a stage of the blueprint makes it, as manifests of a volume do
}

resource "aws_iam_role" "export" {
  count = local.exports ? 1 : 0

  name_prefix = "${substr(var.cluster_name, 0, 30)}-export-" # IAM takes prefixes of 38; a prefix is free in every region
  description = "Copies results of ${var.cluster_name} to s3://${var.results_bucket}"

  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
      Condition = {
        StringEquals = {
          "aws:RequestTag/eks-cluster-name"           = var.cluster_name
          "aws:RequestTag/kubernetes-namespace"       = local.export_namespace
          "aws:RequestTag/kubernetes-service-account" = local.export_account
        }
      }
    }]
  })
}

resource "aws_iam_role_policy" "export" {
  count = local.exports ? 1 : 0

  name = "results"
  role = aws_iam_role.export[0].name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = "s3:ListBucket"
        Resource  = local.export_bucket
        Condition = { StringLike = { "s3:prefix" = [local.export_prefix, "${local.export_prefix}/*"] } }
      },
      {
        Effect   = "Allow"
        Action   = ["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"]
        Resource = "${local.export_bucket}/${local.export_prefix}/*"
      },
    ]
  })
}

# The agent that hands out the credentials is an add-on of the cluster.
resource "aws_eks_pod_identity_association" "export" {
  count = local.exports ? 1 : 0

  cluster_name    = module.eks.cluster_name
  namespace       = local.export_namespace
  service_account = local.export_account
  role_arn        = aws_iam_role.export[0].arn

  depends_on = [aws_iam_role_policy.export]
}

output "export_service_account" {
  description = "Service account whose pods may write below results_bucket; empty without one."
  value       = local.exports ? aws_eks_pod_identity_association.export[0].service_account : ""
}
