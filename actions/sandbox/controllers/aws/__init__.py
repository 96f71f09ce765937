"""AWS' part in a cluster: instances as nodes, node groups, device plugins, FSx volumes."""
