module realcluster/certificates

go 1.24.0
