"""The narrow protobuf schema: the fields of the API's messages that we read.

It is made in code, so that no compiler and no generated file is needed; a field that is not named here is skipped by
the decoder. Fields that are compared or read rarely are declared as `bytes`: the raw form is the key of a memo, so
that the few distinct values of a fleet (requests, owners, moments, states) are each read once.

Source: field numbers of k8s.io/api and k8s.io/apimachinery, `generated.proto`, v0.34.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_MESSAGES = """
WatchEvent          type:string=1 object:RawExtension=2
RawExtension        raw:bytes=1
Unknown             raw:bytes=2
List                metadata:ListMeta=1 items:bytes*=2
ListMeta            resource_version:string=2 following:string=3
Status              message:string=3 reason:string=4 details:StatusDetails=5 code:int32=6
StatusDetails       causes:StatusCause*=4 retry_after_seconds:int32=5
StatusCause         reason:string=1 message:string=2 field:string=3
Head                metadata:HeadMeta=1
HeadMeta            resource_version:string=6 annotations:Text*=12
Text                key:string=1 value:string=2
Time                seconds:int64=1
Owner               kind:string=1 name:string=3 api_version:string=5 controller:bool=6
Meta                name:string=1 namespace:string=3 uid:string=5 created:bytes=8 deleted:bytes=9 labels:bytes*=11 \
                    owners:bytes*=13
Pod                 metadata:Meta=1 spec:Spec=2 status:PodStatus=3
Spec                containers:Container*=2 node:string=10 init:Container*=20 overhead:Amount*=32 resources:bytes=40
Container           name:string=1 resources:bytes=8 restart_policy:string=24
Resources           requests:Amount*=2
Amount              key:string=1 value:Quantity=2
Quantity            text:string=1
PodStatus           phase:string=1 conditions:Condition*=2 message:string=3 reason:string=4 \
                    containers:ContainerStatus*=8 init:ContainerStatus*=10
Condition           type:string=1 status:string=2 reason:string=5 message:string=6
ContainerStatus     name:string=1 state:bytes=2 ready:bool=4 restarts:int32=5 started:bool=9
State               waiting:Waiting=1 running:Running=2 terminated:Terminated=3
Waiting             reason:string=1 message:string=2
Running             started:Time=1
Terminated          exit_code:int32=1 signal:int32=2 reason:string=3 message:string=4 started:Time=5
"""
_PACKAGE = "eksml"
_SCALARS = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
}

Message = Any
"""A message of a class that is made at run time; its fields are those of the table above."""


def _message_classes() -> dict[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="eksml/narrow.proto", package=_PACKAGE, syntax="proto2")
    for line in _MESSAGES.strip().splitlines():
        name, *fields = line.split()
        message = file.message_type.add(name=name)
        for declared in fields:
            _declare(message, declared)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{message.name}"))
        for message in file.message_type
    }


def _declare(message: descriptor_pb2.DescriptorProto, declared: str) -> None:
    """Add one field, written `name:type=number`, with `*` after the type of a repeated one."""
    name, _, rest = declared.partition(":")
    kind, _, number = rest.partition("=")
    label = descriptor_pb2.FieldDescriptorProto.LABEL_REPEATED if kind.endswith("*") else None
    kind = kind.rstrip("*")
    field = message.field.add(
        name=name, number=int(number), label=label or descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL
    )
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = descriptor_pb2.FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{kind}"


CLASSES = _message_classes()


def reader(name: str) -> Callable[[bytes], Message]:
    """Return the decoder of one message of the table.

    It raises `DecodeError` of `google.protobuf.message` for bytes that are not one.
    """
    read: Callable[[bytes], Message] = CLASSES[name].FromString
    return read
