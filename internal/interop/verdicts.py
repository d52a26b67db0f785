"""Prints what the real safetensors package says about each file of a directory.

    python verdicts.py DIR      one line a file, sorted: its name without .safetensors, a tab, OK or ERR and the variant
    python verdicts.py --depth  how many arrays may be nested in an unknown field of a tensor's entry
"""

import struct
import sys
from pathlib import Path

import safetensors

# The package tells the variant of its SafeTensorError only by its message.
VARIANTS = {
    "header too small": "HeaderTooSmall",
    "header too large": "HeaderTooLarge",
    "invalid header length": "InvalidHeaderLength",
    "invalid UTF-8 in header": "InvalidHeader",
    "invalid JSON in header": "InvalidHeaderDeserialization",
    "incomplete metadata": "MetadataIncompleteBuffer",
    "invalid offset for tensor": "InvalidOffset",
    "invalid shape, data type, or offset": "TensorInvalidInfo",
    "overflow computing buffer size": "ValidationOverflow",
    "The slice is slicing for subbytes dtypes": "MisalignedSlice",
}


def verdict(data):
    try:
        safetensors.deserialize(data)
    except safetensors.SafetensorError as error:
        text = str(error).removeprefix("Error while deserializing: ")
        for start, variant in VARIANTS.items():
            if text.startswith(start):
                return f"ERR {variant}"
        raise  # a message this script does not know must not pass for a verdict
    return "OK"


def nested(depth):
    """A whole file whose only tensor has an unknown field of that many nested arrays."""
    junk = "[" * depth + "]" * depth
    header = '{"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"junk":%s}}' % junk
    return struct.pack("<Q", len(header)) + header.encode()


def deepest():
    depth = 1
    while verdict(nested(depth + 1)) == "OK":
        depth += 1
    return depth


def main(argument):
    if argument == "--depth":
        print(deepest())
        return
    files = sorted(Path(argument).glob("*.safetensors"))
    if not files:
        sys.exit(f"verdicts: there is no *.safetensors file in {argument}")
    for file in files:
        print(f"{file.stem}\t{verdict(file.read_bytes())}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: verdicts.py DIR | --depth")
    main(sys.argv[1])
