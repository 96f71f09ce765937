# Stands in for terraform-aws-modules/kms/aws 2.1.0, which the eks module uses.
variable "name" { type = string }
variable "create" { type = bool }

resource "aws_kms_key" "this" {
  count = var.create ? 1 : 0

  enable_key_rotation = true
  key_usage           = "ENCRYPT_DECRYPT"
  tags                = { terraform-aws-modules = "eks" }
}

resource "aws_kms_alias" "this" {
  for_each = toset(var.create ? ["cluster"] : [])

  name          = "alias/eks/${var.name}"
  target_key_id = aws_kms_key.this[0].key_id
}

output "key_arn" { value = try(aws_kms_key.this[0].arn, null) }
