// Package v1beta1 has what Volcano 1.15.1 takes from its own API module and the last one that is served, 1.14.0, lacks:
// this one name. A copy of that module is completed with this file; every field of the definitions of 1.15.1 is in it.
package v1beta1

// QueueAllocationGateKey names the scheduling gate that holds a pod until its queue has room, and the annotation that asks for it.
const QueueAllocationGateKey = GroupName + "/queue-allocation-gate"
