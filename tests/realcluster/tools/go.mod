module realcluster/tools

go 1.24.0
