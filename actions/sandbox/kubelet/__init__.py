"""The node agent: runs the containers of the pods that are bound to nodes, and answers for their logs."""
