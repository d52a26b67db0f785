"""Reads checkpoints that this project wrote with the packages that will read them.

    python read_back.py DIR...    one JSON line for each tensor: its dtype, shape and a CRC-32 of its bytes, as safetensors'
                                  numpy and torch readers see it; and for each NVFP4 module of compressed-tensors whether it
                                  decompresses to finite values
"""

import json
import sys
import zlib
from pathlib import Path

import numpy
import safetensors.numpy
import torch
from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
from compressed_tensors.quantization import preset_name_to_scheme
from safetensors import safe_open


def raw(tensor):
    """The bytes of a tensor as they are stored."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def main(models):
    scheme = preset_name_to_scheme("NVFP4A16", ["Linear"])
    for model in models:
        modules = {}
        for file in sorted(Path(model).glob("*.safetensors")):
            with safe_open(file, framework="pt") as opened:
                names = list(opened.keys())
                for name in names:
                    tensor = opened.get_tensor(name)
                    module, _, local = name.rpartition(".")
                    modules.setdefault(module, {})[local] = tensor
                    dtype = opened.get_slice(name).get_dtype()
                    line = dict(model=model, file=file.name, tensor=name, dtype=dtype, shape=list(tensor.shape), crc=zlib.crc32(raw(tensor)))
                    print(json.dumps(line))
            # numpy has no 8-bit floats and no bfloat16 of its own; what it has must agree.
            try:
                arrays = safetensors.numpy.load_file(file)
            except (KeyError, TypeError):
                arrays = {}
            for name, array in arrays.items():
                module, _, local = name.rpartition(".")
                if numpy.ascontiguousarray(array).tobytes() != raw(modules[module][local]):
                    sys.exit(f"read_back: numpy and torch read {name} of {file} differently")
        for module, state in sorted(modules.items()):
            if "weight_packed" not in state or "weight_global_scale" not in state:
                continue
            weight = NVFP4PackedCompressor.decompress(state, scheme)["weight"]
            print(json.dumps(dict(model=model, module=module, finite=bool(torch.isfinite(weight).all()))))


if __name__ == "__main__":
    main(sys.argv[1:])
