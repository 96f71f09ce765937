"""A simulation of Terraform for rehearsals on machines without the program. Nothing real is made."""
