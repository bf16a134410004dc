"""Kafka's questions about groups that kafka-python has no messages for; their fields lie beside this file.

Of Kafka Streams groups (KIP-1071, API key 89) and share groups (KIP-932, API keys 77 and 90), as Kafka 4.2 has them. A broker
that knows later versions answers in these too.
"""

from kafka.protocol.api_message import ApiMessage


class StreamsGroupDescribeRequest(ApiMessage, load_json=__name__):
    """Asks a group's coordinator for its topology and members."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=__name__):
    """The answer."""


class ShareGroupDescribeRequest(ApiMessage, load_json=__name__):
    """Asks a group's coordinator for its members."""


class ShareGroupDescribeResponse(ApiMessage, load_json=__name__):
    """The answer."""


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=__name__):
    """Asks a group's coordinator how many records of each partition wait: from version 1 on, which is KIP-1226."""


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=__name__):
    """The answer."""
