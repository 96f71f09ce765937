module realcluster/karpenter

go 1.26.0

require (
	github.com/aws/karpenter-provider-aws v1.14.1
	sigs.k8s.io/karpenter v1.14.0
)

// karpenter-provider-aws asks for a commit of karpenter that not every proxy serves; only the CRDs are used.
replace sigs.k8s.io/karpenter => sigs.k8s.io/karpenter v1.14.0
