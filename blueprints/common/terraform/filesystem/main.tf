locals {
  # Lustre talks on 988, and to and from 1018-1023. With fewer ports, mounts hang.
  lustre_ports = {
    main   = { from = 988, to = 988 }
    client = { from = 1018, to = 1023 }
  }
}

resource "aws_security_group" "fsx" {
  name_prefix = "${var.cluster_name}-fsx-"
  description = "FSx for Lustre of ${var.cluster_name}"
  vpc_id      = var.vpc_id

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "lustre" {
  for_each = local.lustre_ports

  description       = "Lustre, ${each.key}"
  security_group_id = aws_security_group.fsx.id
  cidr_ipv4         = var.vpc_cidr
  ip_protocol       = "tcp"
  from_port         = each.value.from
  to_port           = each.value.to
}

resource "aws_vpc_security_group_egress_rule" "lustre" {
  for_each = local.lustre_ports

  description       = "Lustre, ${each.key}"
  security_group_id = aws_security_group.fsx.id
  cidr_ipv4         = var.vpc_cidr
  ip_protocol       = "tcp"
  from_port         = each.value.from
  to_port           = each.value.to
}

resource "aws_fsx_lustre_file_system" "this" {
  deployment_type             = "PERSISTENT_2"
  storage_type                = "SSD"
  storage_capacity            = var.capacity_gib
  per_unit_storage_throughput = var.throughput_mbps_per_tib
  file_system_type_version    = "2.15"
  subnet_ids                  = [var.subnet_id]
  security_group_ids          = [aws_security_group.fsx.id]
  skip_final_backup           = true
  kms_key_id                  = var.kms_key_arn == "" ? null : var.kms_key_arn

  metadata_configuration {
    mode = "AUTOMATIC"
  }

  tags = {
    Name = "${var.cluster_name}-fsx"
  }

  depends_on = [
    aws_vpc_security_group_ingress_rule.lustre,
    aws_vpc_security_group_egress_rule.lustre,
  ]
}

resource "aws_s3_bucket" "data" {
  count = var.has_data_repository ? 1 : 0

  bucket_prefix = "${var.cluster_name}-fsx-"
  force_destroy = var.delete_data
}

resource "aws_s3_bucket_public_access_block" "data" {
  count = var.has_data_repository ? 1 : 0

  bucket                  = aws_s3_bucket.data[0].id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_fsx_data_repository_association" "data" {
  count = var.has_data_repository ? 1 : 0

  file_system_id       = aws_fsx_lustre_file_system.this.id
  data_repository_path = "s3://${aws_s3_bucket.data[0].id}"
  file_system_path     = "/data"

  s3 {
    auto_export_policy {
      events = ["NEW", "CHANGED", "DELETED"]
    }
    auto_import_policy {
      events = ["NEW", "CHANGED", "DELETED"]
    }
  }
}
