"""The messages of KEDA's ``externalscaler.proto``, declared here: protobuf's own form, without a compiler."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

PACKAGE = "externalscaler"
SERVICE = f"{PACKAGE}.ExternalScaler"
_STRING, _INT = FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_INT64
_FLOAT, _BOOL = FieldDescriptorProto.TYPE_DOUBLE, FieldDescriptorProto.TYPE_BOOL
_MESSAGES: Mapping[str, Mapping[str, int | str]] = {
    "MetadataEntry": {"key": _STRING, "value": _STRING},
    # KEDA has a map here, which on the wire is a list of pairs.
    "ScaledObjectRef": {"name": _STRING, "namespace": _STRING, "scalerMetadata": "*MetadataEntry"},
    "IsActiveResponse": {"result": _BOOL},
    "MetricSpec": {"metricName": _STRING, "targetSize": _INT, "targetSizeFloat": _FLOAT},
    "GetMetricSpecResponse": {"metricSpecs": "*MetricSpec"},
    "GetMetricsRequest": {"scaledObjectRef": "ScaledObjectRef", "metricName": _STRING},
    "MetricValue": {"metricName": _STRING, "metricValue": _INT, "metricValueFloat": _FLOAT},
    "GetMetricsResponse": {"metricValues": "*MetricValue"},
}
"""Fields by message, in the order of their numbers, from 1: a scalar's type, or another message; with a star: many of it."""


def _declared() -> DescriptorPool:
    file = FileDescriptorProto(name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields.items(), 1):
            made = message.field.add(name=field, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            if isinstance(kind, int):
                made.type = kind
            else:
                made.type, made.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{PACKAGE}.{kind.removeprefix('*')}"
                made.label = made.LABEL_REPEATED if kind.startswith("*") else made.LABEL_OPTIONAL
    pool = DescriptorPool()
    pool.Add(file)
    return pool


_POOL = _declared()


def _message(name: str) -> Any:
    return GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


ScaledObjectRef = _message("ScaledObjectRef")
IsActiveResponse = _message("IsActiveResponse")
MetricSpec = _message("MetricSpec")
GetMetricSpecResponse = _message("GetMetricSpecResponse")
GetMetricsRequest = _message("GetMetricsRequest")
MetricValue = _message("MetricValue")
GetMetricsResponse = _message("GetMetricsResponse")
