output "repository_url" {
  description = "Where images are pushed to and pulled from, without a tag."
  value       = aws_ecr_repository.this.repository_url
}
