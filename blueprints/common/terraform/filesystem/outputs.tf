output "fsx_id" {
  description = "The file system."
  value       = aws_fsx_lustre_file_system.this.id
}

output "fsx_dns_name" {
  description = "Host that the volume mounts from."
  value       = aws_fsx_lustre_file_system.this.dns_name
}

output "fsx_mount_name" {
  description = "Name that the volume mounts."
  value       = aws_fsx_lustre_file_system.this.mount_name
}
