"""Why is it stuck: from what a cluster says of its objects to causes, with evidence. Pure: asks nobody."""
