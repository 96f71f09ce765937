"""The program that a demo has in place of `terraform`, where there is none: nothing real is made."""
