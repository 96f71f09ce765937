"""Karpenter: the instances that pending pods need, and their life as NodeClaims."""
