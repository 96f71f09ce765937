data "aws_partition" "current" {}

locals {
  private_subnet_ids = split(",", var.private_subnet_ids)

  # The network root lists the subnet of the file system first. Core nodes run the data job: in another zone, each byte
  # that it writes would be paid for between zones.
  core_subnet_ids = var.core_subnet_ids == "" ? [local.private_subnet_ids[0]] : split(",", var.core_subnet_ids)

  public_access_cidrs = compact(split(",", replace(var.endpoint_public_access_cidrs, " ", "")))
  policies            = "arn:${data.aws_partition.current.partition}:eks::aws:cluster-access-policy"
  principals = merge(
    { for principal in compact(split(",", replace(var.viewers, " ", ""))) : principal => "AmazonEKSViewPolicy" },
    { for principal in compact(split(",", replace(var.admins, " ", ""))) : principal => "AmazonEKSClusterAdminPolicy" },
    jsondecode(var.access_entries),
  )

  all_logs   = ["api", "audit", "authenticator", "controllerManager", "scheduler"]
  named_logs = [for log in compact(split(",", replace(var.control_plane_logs, " ", ""))) : log if log != "none"]

  # Of a version in extended support EKS makes no cluster that is to leave it.
  stays_in_extended_support = var.extended_support || var.support_type == "EXTENDED"
}

module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "20.37.2"

  cluster_name    = var.cluster_name
  cluster_version = var.eks_version
  vpc_id          = var.vpc_id
  subnet_ids      = local.private_subnet_ids

  # Whoever runs this becomes the cluster's administrator; kubectl needs the same principal.
  enable_cluster_creator_admin_permissions = true
  access_entries = {
    for principal, policy in local.principals : principal => {
      principal_arn = principal
      policy_associations = {
        cluster = { policy_arn = "${local.policies}/${policy}", access_scope = { type = "cluster" } }
      }
    }
  }

  cluster_endpoint_public_access       = length(local.public_access_cidrs) > 0
  cluster_endpoint_public_access_cidrs = local.public_access_cidrs
  cluster_endpoint_private_access      = true # the nodes' way, whoever else may use it

  # EKS makes the group /aws/eks/NAME/cluster by itself when it has something to log, also while the cluster is deleted.
  # One made here would come back after the teardown, and the next launch of that name would find it and fail.
  create_cloudwatch_log_group = false
  cluster_enabled_log_types   = var.control_plane_logs == "all" ? local.all_logs : local.named_logs

  # EKS' own default is EXTENDED: a cluster that is left alone becomes six times as dear.
  cluster_upgrade_policy = { support_type = local.stays_in_extended_support ? "EXTENDED" : "STANDARD" }

  # Secrets are always encrypted, with a key of the cluster's own or with the given one.
  create_kms_key            = var.kms_key_arn == ""
  cluster_encryption_config = merge({ resources = ["secrets"] }, var.kms_key_arn == "" ? {} : { provider_key_arn = var.kms_key_arn })

  iam_role_name = "${substr(var.cluster_name, 0, 29)}-cluster" # a prefix: IAM takes 38 characters with the last "-"

  # An all-protocol rule of the node security group to itself, both ways: EFA traffic matches no narrower one.
  enable_efa_support = true

  cluster_addons = {
    coredns                = {}
    kube-proxy             = {}
    eks-pod-identity-agent = { before_compute = true }
    vpc-cni                = { before_compute = true }
  }

  eks_managed_node_groups = {
    core = {
      ami_type       = "AL2023_x86_64_STANDARD" # Amazon Linux 2 has no image from Kubernetes 1.33 on
      instance_types = [var.core_instance_type]

      subnet_ids   = local.core_subnet_ids
      min_size     = var.core_nodes
      max_size     = max(var.core_nodes, 8)
      desired_size = var.core_nodes

      block_device_mappings = {
        root = {
          device_name = "/dev/xvda"
          ebs = {
            volume_size           = 200 # the data job's image alone is above 20 GB
            volume_type           = "gp3"
            encrypted             = true
            kms_key_id            = var.kms_key_arn == "" ? null : var.kms_key_arn
            delete_on_termination = true
          }
        }
      }

      launch_template_tags = { eksml-run = var.run_id } # on instances, volumes and interfaces: an audit finds them

      labels = merge({
        WorkerType    = "ON_DEMAND"
        NodeGroupType = "core"
      }, jsondecode(var.core_labels))
    }
  }

  node_security_group_tags = {
    "karpenter.sh/discovery" = var.cluster_name
  }
}

module "karpenter" {
  source  = "terraform-aws-modules/eks/aws//modules/karpenter"
  version = "20.37.2"
  create  = var.karpenter

  cluster_name          = module.eks.cluster_name
  enable_v1_permissions = true

  create_pod_identity_association = true
  namespace                       = "kube-system"

  # The pool's EC2NodeClass names this role.
  node_iam_role_name            = "${var.cluster_name}-node"
  node_iam_role_use_name_prefix = false
  node_iam_role_additional_policies = {
    AmazonSSMManagedInstanceCore = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"
  }
}

# Karpenter from 1.8 on reads more than the module's policy allows it. A policy of its own: with these, that of the module
# could exceed the 6144 characters of a managed one.
resource "aws_iam_role_policy" "karpenter_reads" {
  count = var.karpenter ? 1 : 0

  name = "reads"
  role = module.karpenter.iam_role_name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Effect    = "Allow"
        Action    = ["ec2:DescribeCapacityReservations", "ec2:DescribeInstanceStatus", "ec2:DescribePlacementGroups"]
        Resource  = "*"
        Condition = { StringEquals = { "aws:RequestedRegion" = var.region } }
      },
      {
        Effect   = "Allow"
        Action   = "iam:ListInstanceProfiles"
        Resource = "*"
      },
    ]
  })
}

# Every release depends on the cluster, so a destroy removes them while the API still answers.
resource "helm_release" "karpenter" {
  count = var.karpenter ? 1 : 0

  name       = "karpenter"
  namespace  = "kube-system"
  repository = "oci://public.ecr.aws/karpenter"
  chart      = "karpenter"
  version    = var.karpenter_version
  wait       = true

  values = [yamlencode({
    settings = {
      clusterName       = module.eks.cluster_name
      clusterEndpoint   = module.eks.cluster_endpoint
      interruptionQueue = module.karpenter.queue_name
    }
    nodeSelector = { NodeGroupType = "core" }
  })]

  depends_on = [module.eks, module.karpenter, aws_iam_role_policy.karpenter_reads]
}

resource "helm_release" "nvidia_device_plugin" {
  count = var.nvidia_plugin ? 1 : 0

  name             = "nvidia-device-plugin"
  namespace        = "nvidia-device-plugin"
  create_namespace = true
  repository       = "https://nvidia.github.io/k8s-device-plugin"
  chart            = "nvidia-device-plugin"
  version          = var.nvidia_plugin_version
  wait             = false # it has no pods before the first GPU node

  values = [yamlencode({
    nodeSelector = { accelerator = "nvidia" }
    affinity     = null
    tolerations  = [{ key = "nvidia.com/gpu", operator = "Exists", effect = "NoSchedule" }]
  })]

  depends_on = [module.eks]
}

resource "helm_release" "neuron_device_plugin" {
  count = var.neuron_plugin ? 1 : 0

  name       = "neuron-helm-chart"
  namespace  = "kube-system"
  repository = "oci://public.ecr.aws/neuron"
  chart      = "neuron-helm-chart"
  version    = var.neuron_plugin_version
  wait       = false # it has no pods before the first Neuron node

  values = [yamlencode({
    npd = { enabled = false } # the problem detector wants rights of its own, and restarts nodes
  })]

  depends_on = [module.eks]
}

resource "helm_release" "efa_device_plugin" {
  count = var.efa_plugin ? 1 : 0

  name       = "aws-efa-k8s-device-plugin"
  namespace  = "kube-system"
  repository = "https://aws.github.io/eks-charts"
  chart      = "aws-efa-k8s-device-plugin"
  version    = var.efa_plugin_version
  wait       = false # it has no pods before the first node with EFA

  # The chart tolerates only critical add-ons: on tainted nodes it would be missing without a word.
  values = [yamlencode({
    tolerations = [
      { key = "nvidia.com/gpu", operator = "Exists", effect = "NoSchedule" },
      { key = "aws.amazon.com/neuron", operator = "Exists", effect = "NoSchedule" },
    ]
  })]

  depends_on = [module.eks]
}

resource "helm_release" "fsx_csi_driver" {
  count = var.fsx_csi ? 1 : 0

  name       = "aws-fsx-csi-driver"
  namespace  = "kube-system"
  repository = "https://kubernetes-sigs.github.io/aws-fsx-csi-driver"
  chart      = "aws-fsx-csi-driver"
  version    = var.fsx_csi_version
  wait       = true

  # The file system is a static volume: the controller needs no AWS rights.
  depends_on = [module.eks]
}
