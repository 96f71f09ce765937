"""Next steps for errors that end a program and that no other rule reads, by the family of the error.

Source: botocore and Boto3 `ClientError`, aws-sdk error codes; huggingface_hub `HfHubHTTPError`; errno(3); PyTorch
`load_state_dict`; Megatron-LM and NeMo argument checks; Open MPI 4 and 5 help texts; neuronx-cc.
"""

from __future__ import annotations

import re

from actions.cluster.diagnose.log_patterns import THROTTLED

_NO_NAME = (
    r"(?:NameResolutionError|[Nn]ame resolution|Failed to resolve|[Cc]ould not resolve host|Name or service not known"
    r"|no such host|nodename nor servname|cannot be resolved|bad address ')"
)
_INSIDE = r"[\w-]{1,63}(?:\.[\w-]{1,63}){0,3}\.(?:svc|pod|local)\b"
"""A name that the cluster's own DNS gives."""

_FAMILIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        THROTTLED,
        "Wait and start it again; let one process call for all ranks (fetch once to the shared volume), with a"
        " token where the service knows one (HF_TOKEN).",
    ),
    (
        re.compile(
            r"NEFF is invalid|could be broken or hacked|libneuronxla[^\n]{0,400}No such file|\.hlo(?:_module)?\.pb'"
        ),
        "Empty the cache of the Neuron compiler (NEURON_COMPILE_CACHE_URL) and compile again with the SDK of this"
        " image; let one job write to a cache at a time.",
    ),
    (
        re.compile(r"devmem reservation"),
        "Make the processes of a node as many as its NeuronCores allow (NEURON_RT_NUM_CORES, tensor parallel"
        " degree): each communicator keeps device memory.",
    ),
    (
        re.compile(r"NEURON_RT_ROOT_COMM_ID"),
        "Set NEURON_RT_ROOT_COMM_ID to address:port of the first worker in all of them; a framework that sets it"
        " itself must know this version of torch-neuronx.",
    ),
    (
        re.compile(r"neuronx-cc|Compilation failed for|NeuronxccError|\bneuron-cc\b"),
        "Read the compiler's messages above this line (log-neuron-cc.txt); with the same SDK in image and node, empty"
        " its cache once, which keeps failures too.",
    ),
    (
        re.compile(r"Unable to insert remote address"),
        "Let the security group of the nodes take all traffic from and to itself, in both directions: EFA passes"
        " no other rule, also where TCP works; all nodes need the same EFA and aws-ofi-nccl version.",
    ),
    (
        re.compile(r"AssumeRoleWithWebIdentity|InvalidIdentityToken"),
        "Check eks.amazonaws.com/role-arn of the pod's service account, and that the trust policy of that role names"
        " the cluster's OIDC provider with this namespace and account.",
    ),
    (
        re.compile(
            r"Expired(?:Token|Credentials)|RequestExpired|(?:token|credentials)[^\n]{0,40} (?:has|have|is) expired"
        ),
        "Let the pod take credentials that renew themselves (Pod Identity or IRSA) instead of exported keys, and start"
        " it again.",
    ),
    (
        re.compile(
            r"NoCredentialsError|Unable to locate credentials|[Nn]o (?:valid )?credential (?:sources|providers)"
        ),
        "Give the pod's service account a role (Pod Identity or IRSA): the node's own is out of reach where IMDS allows"
        " one hop.",
    ),
    (
        re.compile(r"explicit deny"),
        "Look for the deny: in a policy of the organization, of the bucket or endpoint, or a permissions boundary"
        " of the role. No right that is added takes it away.",
    ),
    (
        re.compile(r"assumed-role/[^\s/]{1,80}/i-[0-9a-f]{4,20} is not authorized"),
        "The pod acts with its node's role: give its service account a role with that right (Pod Identity or"
        " IRSA), name the service account in the pod template, and make the pod again.",
    ),
    (
        re.compile(
            r"\((?:AccessDenied\w*|UnauthorizedOperation|Forbidden|403)\)|AccessDenied(?:Exception)?\b"
            r"|is not authorized to perform|403 Forbidden"
        ),
        "Give the role of the pod (of its service account, else of the node) the right to do that; see the policy"
        " of the bucket and of its key, too.",
    ),
    (
        re.compile(
            rf"{_NO_NAME}[^\n]{{0,200}}?\b{_INSIDE}|\b{_INSIDE}[^\n]{{0,120}}{_NO_NAME}|ssh: Could not resolve hostname"
        ),
        "Look for the pod of that name and for the headless Service (its subdomain) that gives it one: it does not"
        " run yet, has ended, or the name or namespace in the host list is another. CoreDNS must run.",
    ),
    (
        re.compile(
            rf"(?:{_NO_NAME})[^\n]{{0,300}}amazonaws\.com"
            rf"|amazonaws\.com[^\n]{{0,300}}(?:{_NO_NAME}|ConnectTimeout|timed out)"
        ),
        "Check the pod's way to that service of AWS: VPC endpoint with private DNS or NAT gateway, the region in"
        " the name, CoreDNS.",
    ),
    (
        re.compile(
            rf"{_NO_NAME}|Max retries exceeded with url|ConnectTimeout|Network is unreachable"
            r"|couldn't connect to 'https?:"
        ),
        "Check that the pod reaches that host: CoreDNS, NAT gateway, network policies, HTTPS_PROXY; or use a copy on"
        " the volume (HF_HUB_OFFLINE=1).",
    ),
    (
        re.compile(r"ModuleNotFoundError|No module named"),
        "Install the module in the image, or use the image that this script is made for.",
    ),
    (
        re.compile(r"cannot open shared object file"),
        "Install the library that it names in the image, or put its folder on LD_LIBRARY_PATH.",
    ),
    (
        re.compile(r"GLIBC(?:XX)?_[\d.]+' not found|undefined symbol"),
        "Use packages that were built for this image: its C library, PyTorch and CUDA must be those of the build.",
    ),
    (
        re.compile(r"Errno (?:5|107|108|116)\]|Stale file handle|Transport endpoint|transport endpoint shutdown"),
        "See whether the file system was away or has evicted this client (FSx: its events; node: dmesg), then start"
        " from the last checkpoint.",
    ),
    (
        re.compile(r"Errno (?:13|30)\]|PermissionError|Permission denied: '|Read-only file system"),
        "Let the pod's user write there: fsGroup or runAsUser of its securityContext, or the owner of the folder on the"
        " volume; see whether it is mounted read-only.",
    ),
    (
        re.compile(r"NoSuchKey|NoSuchBucket|\(404\)|\b404 (?:Client Error|Not Found)"),
        "Correct the name in it (bucket, key, model, revision) and the region, and see that what writes it has run.",
    ),
    (
        re.compile(r"FileNotFoundError|Errno 2\]"),
        "Correct the path, see that its volume is mounted there, and that the stage that writes it has run.",
    ),
    (
        re.compile(r"size mismatch for|loading state_dict|(?:Missing|Unexpected) key\(s\) in state_dict"),
        "Load it with the parameters that it was written with (sizes, vocabulary, parallelism), or convert it.",
    ),
    (
        re.compile(r"(?:is|be|not) (?:evenly )?divisible by"),
        "Make parallel and batch sizes divide the number of processes: replicas times GPUs of each pod.",
    ),
    (
        re.compile(r"EADDRINUSE|[Aa]ddress already in use"),
        "Start one torchrun in each pod, give each its own --master-port (with hostNetwork also each job), and end"
        " processes that an earlier attempt has left.",
    ),
    (
        re.compile(r"can't start new thread|Errno 11\] Resource temporarily unavailable|pthread_create failed"),
        "Start fewer processes and threads (loader workers, OMP_NUM_THREADS), or raise podPidsLimit of the kubelet.",
    ),
    (
        re.compile(r"Torch not compiled with CUDA enabled"),
        "Use an image whose PyTorch is built with CUDA: the CPU build of an index or a dependency has taken its place.",
    ),
    (
        re.compile(r"api_key not configured|wandb\.(?:errors\.)?[\w.]{0,40}(?:UsageError|AuthenticationError)"),
        "Give the pod WANDB_API_KEY from a Secret, or turn Weights & Biases off (WANDB_MODE=offline).",
    ),
    (
        re.compile(r"RequestTimeTooSkewed|SignatureDoesNotMatch[^\n]{0,120}(?:expired|not yet current)"),
        "Correct the clock of the node (chrony): AWS refuses requests that are minutes off.",
    ),
    (
        re.compile(r"Too many open files|Errno 24\]"),
        "Raise the limit of open files of the container, use fewer workers, or PyTorch's sharing strategy file_system.",
    ),
    (
        re.compile(r"attempt to run as root|allow-run-as-root|defining TMPDIR"),
        "Start mpirun with --allow-run-as-root, or as another user.",
    ),
    (
        re.compile(r"MemoryError|Unable to allocate [\d.]+ [KMGTP]iB"),
        "Raise limits.memory of the pod, or load less at once; the node must have it, too.",
    ),
)


def remedy_of(error: str) -> str:
    """Return what to do about an error; empty if it is of no known family."""
    return next((step for expression, step in _FAMILIES if expression.search(error)), "")
