resource "aws_ecr_repository" "this" {
  name                 = var.repository_name
  image_tag_mutability = "MUTABLE" # a build that is repeated pushes the same tag; runs name images by digest
  force_delete         = true      # images are made from the blueprint's recipe: nothing is lost with them

  dynamic "encryption_configuration" {
    for_each = compact([var.kms_key_arn])

    content {
      encryption_type = "KMS"
      kms_key         = encryption_configuration.value
    }
  }

  image_scanning_configuration {
    scan_on_push = true
  }
}

resource "aws_ecr_lifecycle_policy" "this" {
  repository = aws_ecr_repository.this.name

  policy = jsonencode({
    rules = [{
      rulePriority = 1
      description  = "Images without a tag, which a repeated build leaves behind, are above 20 GB each."
      selection    = { tagStatus = "untagged", countType = "sinceImagePushed", countUnit = "days", countNumber = 14 }
      action       = { type = "expire" }
    }]
  })
}
