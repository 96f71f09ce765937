"""The write path: patches, field ownership, admission, deletion and garbage collection."""
